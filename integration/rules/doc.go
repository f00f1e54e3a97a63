// Package rules tests the rules on the host: how they are written, repaired and removed, and what happens when the host
// rejects them.
package rules

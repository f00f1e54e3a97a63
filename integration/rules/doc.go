// Package rules tests the host's rules: what is put there, by whom it may be reached, and what the host refuses.
package rules

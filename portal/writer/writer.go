// Package writer is the scaffold of Writers of portals: options that they share, settings that change while they are in
// use, whether it is known what the host holds, drift between that and what was written, and the same steps for each
// address family. It does not know any facility of the host.
package writer

// Package writer is what the Writers of portals have in common. It does not know any facility of the host.
package writer

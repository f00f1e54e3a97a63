package inet

import "net/netip"

// Flow is an entry of the kernel's conntrack table.
type Flow struct {
	Protocol Protocol
	To       netip.AddrPort // whom the client writes to
	Replier  netip.AddrPort // who replies: To, unless the kernel translates the flow
	Replied  bool           // a reply has come
}

// Translated tells whether the kernel leads the flow elsewhere.
func (f Flow) Translated() bool { return f.Replier != f.To }

// FlowQuery says which flows are looked at.
type FlowQuery struct {
	// Unreplied asks for flows of every protocol that are neither replied to nor translated; otherwise for flows of UDP.
	Unreplied bool
	// To are the only destinations that are of interest, of UDP; the unspecified address of a family is any of that
	// family. Empty: all.
	To []netip.AddrPort
}

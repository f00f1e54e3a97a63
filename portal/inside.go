package portal

import (
	"fmt"
	"net/netip"
	"regexp"
)

// Inside says who is inside the cluster, for portals that lead others elsewhere or nowhere. This node itself always is.
// A client is a pod if any one field says so; the zero value knows no pods.
type Inside struct {
	Sources         []netip.Prefix // their addresses, of either family
	Interface       string         // the bridge that they come in by; empty = none
	InterfacePrefix string         // how the names of the interfaces begin that they come in by; empty = none
}

// The kernel's names of interfaces have 15 bytes at most; what stands for the rest of a name takes one.
var (
	interfaceForm       = regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_.:-]{0,14}$`)
	interfacePrefixForm = regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_.:-]{0,13}$`)
)

// Check refuses what no rule can express.
func (in Inside) Check() error {
	for _, p := range in.Sources {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("pod addresses %s: want an IPv4 or IPv6 prefix", p)
		}
	}
	if in.Interface != "" && !interfaceForm.MatchString(in.Interface) {
		return fmt.Errorf("pod interface %q: want at most 15 of letters, digits, _, ., : and -", in.Interface)
	}
	if in.InterfacePrefix != "" && !interfacePrefixForm.MatchString(in.InterfacePrefix) {
		return fmt.Errorf("prefix of pod interfaces %q: want at most 14 of letters, digits, _, ., : and -", in.InterfacePrefix)
	}
	return nil
}

package portal

import (
	"fmt"
	"net/netip"
	"regexp"
)

// LocalDetector tells pods from other clients. A client is a pod if any one field says so; the zero value knows no
// pods.
type LocalDetector struct {
	Sources         []netip.Prefix // addresses of pods, of either family
	Interface       string         // the bridge that their packets come in by; empty = none
	InterfacePrefix string         // what the names of their interfaces begin with; empty = none
}

// The kernel's names of interfaces have 15 bytes at most; the wildcard behind a prefix takes one of them.
var (
	interfaceForm       = regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_.:-]{0,14}$`)
	interfacePrefixForm = regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_.:-]{0,13}$`)
)

// PodsKnown tells whether it can tell any pods.
func (d LocalDetector) PodsKnown() bool {
	return len(d.Sources) > 0 || d.Interface != "" || d.InterfacePrefix != ""
}

// Check returns an error for what no rule can express.
func (d LocalDetector) Check() error {
	for _, p := range d.Sources {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("pod addresses %s: want an IPv4 or IPv6 prefix", p)
		}
	}
	if d.Interface != "" && !interfaceForm.MatchString(d.Interface) {
		return fmt.Errorf("pod interface %q: want at most 15 of letters, digits, _, ., : and -", d.Interface)
	}
	if d.InterfacePrefix != "" && !interfacePrefixForm.MatchString(d.InterfacePrefix) {
		return fmt.Errorf("prefix of pod interfaces %q: want at most 14 of letters, digits, _, ., : and -",
			d.InterfacePrefix)
	}
	return nil
}

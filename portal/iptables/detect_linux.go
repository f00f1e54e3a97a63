package iptables

import (
	"github.com/coreos/go-iptables/iptables"

	"github.com/portald/portald/platform/inet"
)

// present looks for the family's commands and runs one.
func present(f family, variant string) error {
	protocol := iptables.ProtocolIPv4
	if f.ip == inet.IPv6 {
		protocol = iptables.ProtocolIPv6
	}
	_, err := iptables.New(iptables.IPFamily(protocol), iptables.Path(f.commandName(variant, "")))
	return err
}

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/iptables"
)

// trace is by what one portald knows its own on a host. One for the Services of a proxy name may stand beside one for all
// others, so that each has names of its own.
type trace struct {
	chains string // how their names begin
	divert platform.Divert
}

// traceOf is that of the portald for the Services of a proxy name, empty for those without.
func traceOf(proxyName string) trace {
	t := trace{iptables.DefaultPrefix, platform.DefaultDivert()}
	if proxyName == "" {
		return t
	}
	sum := sha256.Sum256([]byte(proxyName))
	t.chains += fmt.Sprintf("-%X", sum[:3])
	slot := 1 + int(binary.BigEndian.Uint16(sum[:]))%slots
	t.divert.Table += slot
	t.divert.Priority += slot * platform.DivertRules
	return t
}

// slots is how many places names are spread over, behind that of the portald without one. The last rules are before 512,
// where those of others begin.
const slots = 140

package main

import (
	"fmt"
	"testing"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/iptables"
)

// A portald for a proxy name leaves the rules of the one without alone, and stays before those of others.
func TestTraces(t *testing.T) {
	plain := traceOf("")
	if plain.chains != iptables.DefaultPrefix || plain.divert != platform.DefaultDivert() {
		t.Errorf("without a name: %+v", plain)
	}
	for i := range 1000 {
		named := traceOf(fmt.Sprint("proxy-", i))
		first, last := named.divert.Priority, named.divert.Priority+platform.DivertRules-1
		if named.chains == plain.chains || named.divert.Table == plain.divert.Table ||
			first < plain.divert.Priority+platform.DivertRules || last >= 512 {
			t.Fatalf("%d: %+v beside %+v", i, named, plain)
		}
	}
}

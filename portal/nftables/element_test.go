package nftables

import (
	"testing"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/portaltest"
)

// Elements are parsed as they were written: otherwise audits would find drift where there is none.
func TestElementsAreReadAsWritten(t *testing.T) {
	for name, test := range cases() {
		o, portals := test()
		if err := o.complete(); err != nil {
			t.Fatal(err)
		}
		for _, f := range []nft.Family{nft.IPv4(), nft.IPv6()} {
			r, err := o.rules(f)
			if err != nil {
				t.Fatal(err)
			}
			_, c := build(r, portals, portaltest.Guarded(true))
			for _, e := range c.add {
				var a nfnl.Attributes
				e.Set.AppendElement(&a, e, true)
				if read, err := e.Set.ParseElement(a); err != nil || read != e {
					t.Errorf("%s: %s: written %+v, read %+v, %v", name, e.Set.Name, e, read, err)
				}
			}
			for _, s := range c.createSets {
				if read := s.Key.Parse(nil); read != (nft.Element{}) {
					t.Errorf("%s: a key of no bytes is %+v", s.Name, read)
				}
			}
		}
	}
}

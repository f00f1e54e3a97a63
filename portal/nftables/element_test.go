package nftables

import (
	"slices"
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

// FuzzParseElement: whatever the kernel lists as an element, a key that is read is one that can be written and read
// again; and so for chains and sets, of which only the shape is checked.
func FuzzParseElement(f *testing.F) {
	o, portals := cases()["spreads"]()
	if err := o.complete(); err != nil {
		f.Fatal(err)
	}
	var sets []*nft.Set
	for _, family := range []nft.Family{nft.IPv4(), nft.IPv6()} {
		r, err := o.rules(family)
		if err != nil {
			f.Fatal(err)
		}
		_, c := build(r, portals, portaltest.Guarded(true))
		sets = append(sets, c.createSets...)
		for _, e := range c.add {
			var a nfnl.Attributes
			e.Set.AppendElement(&a, e, true)
			f.Add(uint8(slices.Index(sets, e.Set)), []byte(a))
		}
		for _, s := range c.createSets {
			f.Add(uint8(0), nft.NewTable(r.Family, "x").CreateSet(s).Data[4:])
		}
		for _, chain := range c.writeChains {
			f.Add(uint8(0), nft.NewTable(r.Family, "x").CreateChain(chain).Data[4:])
		}
	}
	f.Fuzz(func(t *testing.T, set uint8, list []byte) {
		_, _, chain, err := nft.ParseChain(list)
		if err == nil && chain == nil {
			t.Error("no chain, and no error")
		}
		if _, _, s, err := nft.ParseSet(list); err == nil && len(s.Description) > 2*len(list) {
			t.Errorf("%d bytes of a set are described by %d", len(list), len(s.Description))
		}
		_ = nft.ParseDigest(list)
		s := sets[int(set)%len(sets)]
		e, err := s.ParseElement(list)
		if err != nil || e.Element == (nft.Element{}) { // it has no key, or one of another set
			return
		}
		var a nfnl.Attributes
		s.AppendElement(&a, e, false)
		if again, err := s.ParseElement(a); err != nil || again.Element != e.Element {
			t.Errorf("%s: read %+v, written and read again %+v, %v", s.Name, e.Element, again.Element, err)
		}
	})
}

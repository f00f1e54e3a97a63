package iptables

import (
	"testing"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

// Packets at portals that refuse are counted, through changes of others and of all.
func TestRefusals(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			portaltest.Refusals(t, portaltest.Without{}, func(refused func(portal.Refused)) (portal.Writer, error) {
				o := testOptions(nil, variant)
				o.Refused = refused
				return New(t.Context(), o)
			})
		})
	})
}

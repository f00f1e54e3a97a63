package ipvs

import (
	"testing"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

// The writer of rules beside IPVS counts the packets at portals without an endpoint.
func TestRefusals(t *testing.T) {
	needIPVS(t)
	portaltest.Refusals(t, portaltest.Without{Outside: true}, func(refused func(portal.Refused)) (portal.Writer, error) {
		return openCounting(t, nil, refused)
	})
}

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/hns"
)

// An overlay network is refused at start, or once the CNI plug-in makes it; with overlayNetwork: serve it is an event.
// A network of another type ends the search, and so does a host without HNS.
func TestPodNetwork(t *testing.T) {
	type look struct {
		networks []hns.Network
		err      error
	}
	finds := func(networks ...hns.Network) look { return look{networks: networks} }
	nat, bridge := hns.Network{Name: "nat", Type: "NAT"}, hns.Network{Name: "cbr0", Type: "L2Bridge"}
	overlay := hns.Network{Name: "vxlan0", Type: "overlay"}
	denied := look{err: errors.New("HcnEnumerateNetworks failed with 0x80070005")}
	for _, c := range []struct {
		name    string
		looks   []look
		serve   bool
		refused string
		event   string
		logged  int
	}{
		{name: "overlay", looks: []look{finds(nat, overlay)}, refused: `"vxlan0" of type overlay`},
		{name: "later", looks: []look{finds(), finds(nat), finds(nat, overlay)}, refused: "set overlayNetwork: serve"},
		{name: "allowed", looks: []look{finds(overlay)}, serve: true, event: `"vxlan0"`, logged: 1},
		{name: "bridge", looks: []look{finds(), finds(bridge), finds(overlay)}},
		{name: "no HNS", looks: []look{{err: hns.ErrMissing}, finds(overlay)}, logged: 1},
		{name: "denied", looks: []look{denied, denied, denied, finds(overlay)}, refused: `"vxlan0"`, logged: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text bytes.Buffer
				log := logrus.New()
				log.SetOutput(&text)
				p := &podNetwork{serve: c.serve, log: log, read: func(context.Context) ([]hns.Network, error) {
					next := c.looks[0]
					c.looks = c.looks[1:]
					return next.networks, next.err
				}}
				var events []string
				err := p.look(t.Context())
				if err == nil {
					part := p.part(func(reason, _, note string) { events = append(events, reason+" "+note) })
					ctx, failed := context.WithCancelCause(t.Context())
					part.Start(failed)
					select {
					case <-ctx.Done():
					case <-time.After(10 * podNetworkPeriod):
					}
					err = part.Stop()
				}
				if (err != nil) != (c.refused != "") || !strings.Contains(fmt.Sprint(err), c.refused) {
					t.Errorf("error %v, want %q", err, c.refused)
				}
				if got := strings.Join(events, "\n"); (got != "") != (c.event != "") || !strings.Contains(got, c.event) {
					t.Errorf("events %q, want %q", got, c.event)
				}
				if n := strings.Count(text.String(), "level="); n != c.logged {
					t.Errorf("logged %d lines, want %d:\n%s", n, c.logged, text.String())
				}
			})
		})
	}
}

// A node with rules has no look, and nothing that waits.
func TestNoPodNetwork(t *testing.T) {
	var p *podNetwork
	if err := p.look(t.Context()); err != nil {
		t.Error(err)
	}
	part := p.part(nil)
	part.Start(func(err error) { t.Error(err) })
	if err := part.Stop(); err != nil {
		t.Error(err)
	}
}

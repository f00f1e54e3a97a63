package iptables

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// counting is a fake of the legacy variant each of whose rules has met some packets, and at whose next restore of the
// table filter somebody reads the counters while they are 0.
type counting struct {
	*fake
	packets int
	read    func()
}

func (c *counting) run(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error) {
	family, action, _ := strings.Cut(name, "-")
	switch {
	case action == "save" && slices.Contains(args, "-c"):
		return []byte(strings.ReplaceAll(c.save(family, "filter"), "\n-A ", fmt.Sprintf("\n[%d:0] -A ", c.packets))), nil
	case action == "restore" && c.read != nil && bytes.HasPrefix(stdin, []byte("*filter")):
		had := c.packets
		c.packets = 0
		c.read()
		c.packets = had
	}
	return c.fake.run(ctx, name, args, stdin)
}

// A reader who meets the table while iptables-restore replaces it does not have packets counted twice.
func TestCountersOfOtherRulesAreZeroForAMoment(t *testing.T) {
	host := &counting{fake: newFake(), packets: 5}
	host.version = "v0 (legacy)"
	sum := map[string]uint64{}
	w := newWriter(t, Options{Run: host.run, Options: writer.Options{
		ProxyPorts: portaltest.ProxyRange(), Refused: func(r portal.Refused) { sum[r.Owner.Name] += r.Packets },
	}})
	refuses := func(owner, addr string) portal.Portal {
		return portal.Portal{
			Frontend: front(addr, inet.TCP), Kind: service.ClusterIP, Owner: name(owner, ""), Target: portal.Reject{},
		}
	}
	must(t, w.Replace(t.Context(), []portal.Portal{refuses("one", "10.96.0.1:80")}))
	must(t, w.CountRefused(t.Context()))
	met := false
	host.read = func() {
		met = true
		must(t, w.CountRefused(t.Context()))
	}
	other := refuses("other", "10.97.7.9:80")
	must(t, w.Update(t.Context(), []portal.Change{{Frontend: other.Frontend, Portal: &other}}))
	host.read = nil
	must(t, w.CountRefused(t.Context()))
	if !met || sum["one"] != 5 || sum["other"] != 5 {
		t.Errorf("counted %v, want 5 each; read while the table was replaced: %t", sum, met)
	}
	host.packets++
	must(t, w.CountRefused(t.Context()))
	if sum["one"] != 6 {
		t.Errorf("counted %v after one more", sum)
	}
}

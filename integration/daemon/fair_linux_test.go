package daemon

import (
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// A client has its share of a Service, of connections and of new ones a second. It is refused more with an outcome of
// its own, and other clients are served. A change of the configuration or of an annotation is for new connections.
func TestEachClientHasItsShare(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	limited := func(to string) string {
		return b.WriteManifest("config.yaml", "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\n"+to+"\n")
	}
	d := b.Start(b.Cart(0), "--config="+limited("maxConnectionsPerClient: 2"))
	at, other := bed.HostPort(bed.IP4, 80), b.Net.Pod(1)
	served := func(from *topology.Host) bool {
		_, err := bed.Ask(from, "tcp", at)
		return err == nil
	}
	refusedOnce := func(outcome string) {
		t.Helper()
		r := d.RecordWhere("of "+outcome, func(r bed.Record) bool { return r.Outcome == outcome })
		if r.Endpoint != "" || !strings.HasPrefix(r.Client, b.Client.IPv4.String()+":") {
			t.Errorf("recorded as %s", r)
		}
	}
	one, oneReads, _ := b.Open(at)
	two, twoReads, _ := b.Open(at)
	if served(b.Client) || !served(other) {
		t.Error("the client has three, or another has none")
	}
	refusedOnce("client_limit")

	limited("connectionRatePerClient: 1")
	b.Eventually("the limit is lifted", func() bool { return served(b.Client) })
	b.Eventually("the client is too fast", func() bool { return !served(b.Client) })
	if !served(other) {
		t.Error("another client is refused")
	}
	refusedOnce("client_rate")

	own := b.Cart(0)
	own.Annotations = []string{`portald.io/connection-rate-per-client: "0"`, `portald.io/connection-rate: "2"`}
	d.Apply(own)
	b.Eventually("all clients are too fast", func() bool { return !served(b.Client) })
	refusedOnce("rate")
	b.Must(bed.Echoes(one, oneReads))
	b.Must(bed.Echoes(two, twoReads))
}

package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/explain"
)

// explained is what portald explain says of something.
func explained(b *bed.Bed, d *bed.Daemon, what string) (r explain.Report) {
	b.Helper()
	out, err := b.Try(b.Node, bed.Portald, "explain", what, "-o", "json", "--socket", d.Socket)
	text, _, _ := strings.Cut(out, "\n}")
	if err := json.Unmarshal([]byte(text+"\n}"), &r); err != nil {
		b.Fatalf("explain %s: %v\n%s", what, err, out)
	}
	_ = err // it fails where nothing is known
	return r
}

// A pod that was removed and still has connections, a client by its address, and a Service without its namespace are
// explained.
func TestExplainedSubjects(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	d := b.Start(b.Cart(1))
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	b.WriteManifest(bed.Manifest, b.Cart(0))
	b.ServedBy(bed.IP4, bed.PodName(0))

	client := a.Client.Addr().String()
	for what, want := range map[string]string{
		"pod/shop/" + bed.PodName(1): fmt.Sprintf("(pod shop/%s) is no endpoint of shop/cart:http any more (removed ",
			bed.PodName(1)),
		bed.PodName(1):     "1 open connection to it, until a side closes.",
		client:             client + " has 1 open connection to endpoints that are none any more",
		"client/" + client: client + " has 1 open connection to endpoints that are none any more",
		"cart:http":        "Clients of shop/cart:http get 1 of its 1 endpoints",
	} {
		if r := explained(b, d, what); !strings.Contains(r.Verdict.Text, want) {
			t.Errorf("%s: %q, want %q", what, r.Verdict.Text, want)
		}
	}
	if r := explained(b, d, "client/192.0.2.77"); r.Known() || r.Verdict.Status != explain.Wrong {
		t.Errorf("nobody is known: %+v", r)
	}
	if err := bed.Echoes(c, r); err != nil {
		t.Error(err)
	}
}

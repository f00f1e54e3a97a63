package webui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/recordtest"
)

func tell(r *record.Record) string {
	var b strings.Builder
	for _, s := range Story(connlog.From(r)) {
		at := "?"
		if s.AtMS != nil {
			at = fmt.Sprintf("%.3f", *s.AtMS)
		}
		mark := ""
		if s.Bad {
			mark = "!"
		}
		fmt.Fprintf(&b, "%s %s%s: %s\n", at, mark, s.Kind, s.Text)
	}
	return b.String()
}

func TestStory(t *testing.T) {
	well := recordtest.Sample()
	reset := recordtest.Sample()
	reset.Outcome, reset.FirstByte, reset.Error, reset.ClosedBy = record.OutcomeEndpointReset, -1,
		"connection reset by peer", record.Endpoint
	reset.Waited, reset.ClientBlocked, reset.Replays, reset.Ejected = 10*time.Millisecond, time.Millisecond, 1, 2
	reset.Attempts[0].Times, reset.Attempts[0].Ejected = 3, true
	never := recordtest.Sample()
	never.Outcome, never.Connect, never.FirstByte = record.OutcomeDialFailed, -1, -1
	never.Attempts[1].Err = record.Overtaken
	never.Attempts[1].Hedge = true
	for _, test := range []struct {
		of   *record.Record
		want string
	}{{well, `0.000 accepted: 10.0.0.9:41234 came to 10.96.0.10:80 (ClusterIP)
0.000 !refused: 10.1.0.2:8080 was dialled: connection refused
0.251 connected: 10.1.0.3:8080 (shop/cart-a) accepted
1.100 first_byte: the first byte of the endpoint
12.000 ended: both sides closed in order
`}, {reset, `0.000 accepted: 10.0.0.9:41234 came to 10.96.0.10:80 (ClusterIP)
0.000 waited: it waited for an endpoint of shop/cart:http
? waited: endpoints that were left out, since they had failed other connections: 2
10.000 !refused: 10.1.0.2:8080 was dialled 3 times: connection refused; it was left out from then on (ejected)
0.251 connected: 10.1.0.3:8080 (shop/cart-a) accepted
? !dialled: what the client had sent was sent again to another endpoint: 1 times
? !first_byte: no byte came from the endpoint
? blocked: bytes waited, because the client did not accept them
12.000 !ended: the endpoint reset the connection (connection reset by peer)
`}, {never, `0.000 accepted: 10.0.0.9:41234 came to 10.96.0.10:80 (ClusterIP)
0.000 !refused: 10.1.0.2:8080 was dialled: connection refused
0.200 dialled: 10.1.0.3:8080 was dialled: overtaken, while another dial was under way
12.000 !ended: no endpoint could be reached
`}} {
		if d := cmp.Diff(test.want, tell(test.of)); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
}

// Each outcome has words, and one of a newer version is named.
func TestSentences(t *testing.T) {
	for _, o := range record.Outcomes() {
		if sentences()[o] == "" {
			t.Errorf("%s has no sentence", o)
		}
	}
	if got := Sentence(&connlog.Line{Outcome: "new"}); got != "ended: new" {
		t.Error(got)
	}
}

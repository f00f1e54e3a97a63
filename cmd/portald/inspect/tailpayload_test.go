package inspect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/record"
)

// reset are two connections that an endpoint has reset: one with more than is kept, one of which a part was not seen.
func reset() []payload.Entry {
	long, short := *ended()[0], *ended()[0]
	long.Outcome, long.ClosedBy, long.CloseType = record.OutcomeEndpointReset, record.Endpoint, record.Reset
	short.ID, short.Start, short.Outcome = 10, noon.Add(time.Minute), record.OutcomeClientReset
	return []payload.Entry{
		{Record: &long, Kept: &payload.Kept{
			FromClient: payload.Direction{Bytes: 70_003, Parts: []payload.Part{
				{Offset: 0, Data: []byte("GET / HTTP/1.1\r\nX: \x1b[2J\u202e\xff")}, {Offset: 70_000, Data: []byte("end")},
			}},
		}},
		{Record: &short, Kept: &payload.Kept{
			FromClient: payload.Direction{Bytes: 7, Lacks: "5 bytes were not seen",
				Parts: []payload.Part{{Offset: 5, Data: []byte("at")}}},
			FromEndpoint: payload.Direction{Bytes: 4, Parts: []payload.Part{{Offset: 0, Data: []byte("pong")}}},
		}},
	}
}

func newPayloadBed(t *testing.T) *bed {
	b := newBed(t)
	b.payload = payload.Content{Entries: reset(), Services: 1, Bytes: 5000, Most: 4 << 20, Dropped: 12}
	return b
}

// Payload is printed behind its record, with its places, and nothing that a terminal would obey.
func TestTailPayload(t *testing.T) {
	b := newPayloadBed(t)
	b.golden("tail-payload", "tail --payload")
	got := b.run("tail", "--payload")
	if strings.ContainsAny(got.out, "\x1b\r\u202e") || !utf8.ValidString(got.out) {
		t.Errorf("it is not harmless: %q", got.out)
	}
	want := "The payload of 12 connections was dropped: the oldest go when there is more than 4.2MB.\n"
	if got.errOut != want {
		t.Errorf("it says %q, want %q", got.errOut, want)
	}
}

// As JSON it is whole, in base64.
func TestTailPayloadAsJSON(t *testing.T) {
	got := newPayloadBed(t).run("tail", "--payload", "-o", "json")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v: %s", len(lines), got.err, got.out)
	}
	for i, want := range reset() {
		var p adminsocket.Payload
		check(t, json.Unmarshal([]byte(lines[i]), &p))
		up := p.ClientToEndpoint
		if p.Record.ID != want.Record.ID || up.Bytes != want.FromClient.Bytes || up.Lacks != want.FromClient.Lacks ||
			len(up.Parts) != len(want.FromClient.Parts) {
			t.Fatalf("%s", lines[i])
		}
		for j, part := range up.Parts {
			if w := want.FromClient.Parts[j]; part.Offset != w.Offset || string(part.Data) != string(w.Data) {
				t.Errorf("part %d is %q at %d", j, part.Data, part.Offset)
			}
		}
	}
}

// Filters, ids and bounds choose among the connections, and what there is not is said.
func TestTailPayloadIsChosen(t *testing.T) {
	b := newPayloadBed(t)
	for line, want := range map[string]string{
		"": "7 10", "7": "7", "10 7": "7 10", "8": "", "--outcome client_reset": "10", "--not --outcome client_reset": "7",
		"--service other": "", "--last 1": "10", "--last 1 7": "7", "--first 1": "7", "-o dict": "7 10",
	} {
		got := b.run(append([]string{"tail", "--payload"}, strings.Fields(line)...)...)
		var ids []string
		for id, mark := range map[string]string{"7": "endpoint_reset", "10": "client_reset"} {
			if strings.Contains(got.out, mark) {
				ids = append(ids, id)
			}
		}
		for _, id := range strings.Fields(want) {
			if got.err != nil || len(ids) != len(strings.Fields(want)) || !strings.Contains(strings.Join(ids, " "), id) {
				t.Errorf("tail --payload %s: %v, want %s: %v", line, ids, want, got.err)
			}
		}
		if none := strings.HasSuffix(got.errOut, "No payload is kept of such a connection.\n"); none != (want == "") {
			t.Errorf("tail --payload %s says %q", line, got.errOut)
		}
	}
	for content, want := range map[*payload.Content]string{
		{Services: 0}: "No payload is kept: no Service has the annotation portald.io/keep-payload: badly-ended.\n",
		{Services: 2}: "No payload: none of the connections of Services that keep it has ended badly.\n",
	} {
		b.payload = *content
		if got := b.run("tail", "--payload"); got.out != "" || got.errOut != want || got.code() != 0 {
			t.Errorf("%+v: says %q, want %q", content, got.errOut, want)
		}
	}
}

// What cannot be meant is refused.
func TestTailPayloadRefuses(t *testing.T) {
	b := newPayloadBed(t)
	for _, line := range []string{"-f", "--changes", "--group-by pod", "--input-file x", "-o table", "cart", "-1"} {
		got := b.run(append([]string{"tail", "--payload"}, strings.Fields(line)...)...)
		if got.err == nil || got.out != "" {
			t.Errorf("tail --payload %s: %s", line, got.out)
		}
	}
	if got := b.run("tail", "7"); got.err == nil {
		t.Error("an id without --payload is taken")
	}
}

package adminsocket

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var equal = cmpopts.EquateComparable(connection(1).Client)

// Written values are read back as they were, and as encoding/json reads them.
func TestReadConnection(t *testing.T) {
	full := connection(7)
	full.ClientPod, full.ClientNode = "shop/web", "n2"
	full.ClientTCP = &TCP{RTTms: 0.042, RTTVarms: 1e-3, Retransmits: 7, Lost: 1, DeliveryRate: 1 << 40}
	full.EndpointTCP = &TCP{RTTms: 12}
	odd := connection(8)
	odd.Pod, odd.Service = `a"b\c<>&`+"\x1b\u202e\xff", ""
	extreme := Connection{ID: 1<<64 - 1, Attempts: 3, Start: time.Now().UTC()}
	for _, want := range []Connection{connection(1), full, odd, {}, extreme} {
		line, err := appendConnection(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		var standard, got Connection
		if err := json.Unmarshal(line, &standard); err != nil {
			t.Fatal(err)
		}
		if err := readConnection(string(line), &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(standard, got, equal); d != "" {
			t.Errorf("%s (-want +got)\n%s", line, d)
		}
	}
}

// Another JSON of the same is read too; one that is torn is an error.
func TestReadOtherConnections(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"id":7,"later":{"a":[1]},"pod":"p"}`: true,
		`{ "pod": "p", "id": 7 }`:              true,
		`{"id":7,"pod":"\u0070"}`:              true,
		`{"id":7,"pod":"p","client_tcp":null}`: true,
		`{"id":7,"pod":"p"`:                    false,
		`{"id":-7}`:                            false,
		`{"id":"7"}`:                           false,
		`{"id":7,"client":"here"}`:             false,
		`{"id":7,"start":"now"}`:               false,
		`{"id":7}{`:                            false,
		``:                                     false,
		`[]`:                                   false,
	} {
		var c Connection
		err := readConnection(text, &c)
		if (err == nil) != ok || ok && (c.ID != 7 || c.Pod != "p") {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

// Whatever the names and numbers are, what is written is read as encoding/json reads it.
func FuzzReadConnection(f *testing.F) {
	f.Add(uint64(7), "shop/cart:http", "shop/cart-a", int64(0), int64(1234), 0.4)
	f.Add(uint64(0), `"\`+"\x1b\xff", "", int64(1)<<40, int64(-1), 1e300)
	f.Fuzz(func(t *testing.T, id uint64, service, pod string, start, bytes int64, rtt float64) {
		c := Connection{
			ID: id, Service: service, Pod: pod, Start: time.Unix(start%(1<<37), start).UTC(), BytesToClient: bytes,
			Client: connection(id).Client, ClientTCP: &TCP{RTTms: rtt},
		}
		line, err := appendConnection(nil, &c)
		if err != nil {
			t.Fatal(err)
		}
		var standard, got Connection
		want := json.Unmarshal(line, &standard)
		err = readConnection(string(line), &got)
		if (want == nil) != (err == nil) {
			t.Fatalf("%s: %v, want %v", line, err, want)
		}
		if d := cmp.Diff(standard, got, equal); err == nil && d != "" {
			t.Errorf("%s (-want +got)\n%s", line, d)
		}
	})
}

func BenchmarkReadConnection(b *testing.B) {
	c := connection(7)
	line, err := appendConnection(nil, &c)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if err := readConnection(string(line), &c); err != nil {
			b.Fatal(err)
		}
	}
}

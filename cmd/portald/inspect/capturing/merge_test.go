package capturing

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/packets"
	"github.com/portald/portald/proxy/capture"
)

// lines is a sink that has packets in words.
type lines []string

func (l *lines) packet(w *waiting) error {
	*l = append(*l, fmt.Sprintf("%d %s/%s", w.Time, w.from.node, w.at.Name))
	return nil
}

func (l *lines) flush() error { return nil }

func (l *lines) want(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(*l, ", "); got != strings.Join(want, ", ") {
		t.Errorf("got %s, want %s", got, strings.Join(want, ", "))
	}
	*l = nil
}

// twoNodes are streams of two nodes, with an interface and a connection each.
func twoNodes(t *testing.T, patient bool, room int) (m *merger, out *lines, a, b *stream, began *int) {
	t.Helper()
	out, began = &lines{}, new(int)
	m = newMerger(out, patient, room, func() { *began++ })
	a, b = m.stream("a"), m.stream("b")
	for _, s := range []*stream{a, b} {
		must(t, errors.Join(s.Interface(packets.Interface{Index: 2, Name: "eth0", Link: packets.Ethernet}),
			s.Connection(1, &capture.Connection{ID: 7, Service: "shop/cart"})))
	}
	return m, out, a, b, began
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func at(time int64) *capture.Packet {
	return &capture.Packet{Time: time, Interface: 2, Connection: 1, Side: capture.ClientSide, Length: 4,
		Data: []byte("data")}
}

func upTo(time int64) capture.Progress { return capture.Progress{Before: time} }

// Packets of two nodes come out in the order of time, once none that is earlier can come.
func TestMerge(t *testing.T) {
	m, out, a, b, began := twoNodes(t, true, math.MaxInt)
	must(t, errors.Join(a.Packet(at(3)), a.Packet(at(1)), b.Packet(at(2)), a.Progress(upTo(10))))
	out.want(t)
	if *began != 0 {
		t.Error("it has begun, before both nodes have")
	}
	must(t, b.Progress(upTo(3)))
	out.want(t, "1 a/eth0", "2 b/eth0")
	must(t, errors.Join(b.Packet(at(4)), b.Progress(upTo(5))))
	out.want(t, "3 a/eth0", "4 b/eth0")
	must(t, errors.Join(b.leave(), a.Packet(at(8)), a.Progress(upTo(9))))
	out.want(t, "8 a/eth0")
	must(t, errors.Join(a.Packet(at(20)), m.finish()))
	out.want(t, "20 a/eth0")
	if *began != 1 {
		t.Errorf("it has begun %d times", *began)
	}
}

// A node that says nothing holds the others up no longer than for a while.
func TestMergeWithASilentNode(t *testing.T) {
	_, out, a, b, _ := twoNodes(t, true, math.MaxInt)
	must(t, errors.Join(a.Packet(at(1)), a.Progress(upTo(2))))
	out.want(t)
	b.heard = time.Now().Add(-silentFor)
	must(t, a.Progress(upTo(2)))
	out.want(t, "1 a/eth0")
}

// Who looks on sees a packet after a second, whatever earlier ones may come.
func TestMergeInAHurry(t *testing.T) {
	_, out, a, b, _ := twoNodes(t, false, math.MaxInt)
	long := time.Now().Add(-2 * hurry).UnixNano()
	must(t, errors.Join(b.Progress(upTo(1)), a.Packet(at(long)), a.Packet(at(long+int64(time.Hour))), a.Progress(upTo(1))))
	out.want(t, fmt.Sprint(long, " a/eth0"))
}

// What waits is bounded.
func TestMergeIsBounded(t *testing.T) {
	m, out, a, _, _ := twoNodes(t, true, 10)
	must(t, errors.Join(a.Packet(at(2)), a.Packet(at(1)), a.Packet(at(3))))
	out.want(t, "1 a/eth0")
	if m.waits != 8 {
		t.Errorf("%d bytes wait", m.waits)
	}
}

// A file ends with the number of packets that was asked for, of all nodes together.
func TestEnough(t *testing.T) {
	var b bytes.Buffer
	f, err := newFile(&b, 1)
	must(t, err)
	m := newMerger(f, true, math.MaxInt, nil)
	s := m.stream("node\x1b[1m")
	must(t, errors.Join(s.Interface(packets.Interface{Index: 2, Name: "eth0", Link: packets.Ethernet}),
		s.Connection(1, &capture.Connection{Service: "shop/cart"}), s.Packet(at(1)), s.Packet(at(2))))
	if err := m.finish(); !errors.Is(err, errEnough) {
		t.Error(err)
	}
	must(t, f.finish())
	if bytes.Contains(b.Bytes(), []byte("node\x1b")) || !bytes.Contains(b.Bytes(), []byte("/eth0")) {
		t.Errorf("%q", b.Bytes())
	}
}

func TestComment(t *testing.T) {
	a := netip.MustParseAddrPort
	for want, c := range map[string]capture.Connection{
		"shop/cart:http, client side, carried by nobody; client 10.0.0.1:2": {
			Service: "shop/cart:http", Client: a("10.0.0.1:2"),
		},
		"shop/cart:http, client side, record 7; client 10.0.0.1:2 (web/a), frontend 10.96.0.1:80, endpoint 10.1.0.1:8 " +
			"(shop/b), outcome ok": {
			ID: 7, Service: "shop/cart:http", CarriedBy: "userspace", Client: a("10.0.0.1:2"), ClientPod: "web/a",
			Frontend: a("10.96.0.1:80"), Endpoint: a("10.1.0.1:8"), Pod: "shop/b", Outcome: "ok",
		},
		"shop/cart:http, client side, carried by the kernel; client 10.0.0.1:2": {
			Service: "shop/cart:http", CarriedBy: "kernel", Client: a("10.0.0.1:2"),
		},
	} {
		if got := comment(&c, capture.ClientSide); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

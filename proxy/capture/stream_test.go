package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/packets"
)

// heard is what a stream had, in words.
type heard []string

func (h *heard) add(format string, values ...any) error {
	*h = append(*h, fmt.Sprintf(format, values...))
	return nil
}

func (h *heard) Interface(i packets.Interface) error {
	return h.add("interface %d %s %d", i.Index, i.Name, i.Link)
}
func (h *heard) Connection(n uint32, c *Connection) error {
	return h.add("connection %d %s %d %s", n, c.Service, c.ID, c.Outcome)
}
func (h *heard) Packet(p *Packet) error {
	return h.add("packet %d %d %d %s %v %d %q", p.Time, p.Interface, p.Connection, p.Side, p.Outgoing, p.Length, p.Data)
}
func (h *heard) Progress(p Progress) error {
	return h.add("before %d, %d packets", p.Before, p.Packets)
}
func (h *heard) End(e End) error { return h.add("end: %s, %d dropped", e.Why, e.KernelDropped) }

func sample(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b)
	err = errors.Join(err,
		w.Interface(packets.Interface{Index: 3, Name: "eth0", Link: packets.Ethernet}),
		w.Connection(1, &Connection{ID: 7, Service: "shop/cart:http", Client: netip.MustParseAddrPort("10.0.0.1:2")}),
		w.Packet(&Packet{Time: 1234567890123456789, Interface: 3, Connection: 1, Side: ClientSide, Outgoing: true,
			Length: 1500, Data: []byte("abc")}),
		w.Progress(Progress{Before: 5, Statistics: Statistics{Packets: 1}}),
		w.message('?', []byte("of a later version")),
		w.End(End{Why: "it took 1s", Statistics: Statistics{KernelDropped: 4}}))
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestStream(t *testing.T) {
	var got heard
	if err := Read(bytes.NewReader(sample(t)), &got); err != nil {
		t.Fatal(err)
	}
	want := heard{
		"interface 3 eth0 1", "connection 1 shop/cart:http 7 ",
		`packet 1234567890123456789 3 1 client side true 1500 "abc"`, "before 5, 1 packets", "end: it took 1s, 4 dropped",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A stream that is cut anywhere is an error, never a whole one.
func TestStreamCut(t *testing.T) {
	all := sample(t)
	for n := range len(all) {
		if err := Read(bytes.NewReader(all[:n]), &heard{}); !errors.Is(err, ErrCut) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(all), err)
		}
	}
}

func message(kind byte, content string) string {
	return string(kind) + string(binary.BigEndian.AppendUint32(nil, uint32(len(content)))) + content
}

func TestHostileStream(t *testing.T) {
	iface := message(kindInterface, `{"Index":1}`)
	packet := strings.Repeat("\x00", 8) + strings.Repeat("\x00\x00\x00\x01", 3)
	for name, c := range map[string]struct{ stream, why string }{
		"another program":       {"HTTP/1.1 400 Bad Request\r\n\r\n", "begins with"},
		"a later version":       {"portald-capture-2\n", "use the command portald of the release"},
		"a message too long":    {magic + "P\xff\xff\xff\xff", "a message of 4294967295 bytes"},
		"no JSON":               {magic + message(kindInterface, "{"), "read a capture"},
		"a packet too short":    {magic + message(kindPacket, "abc"), "less than its header"},
		"an unknown interface":  {magic + message(kindPacket, packet+"\x01\x00"), "said nothing before"},
		"an unknown connection": {magic + iface + message(kindPacket, packet+"\x01\x00"), "said nothing before"},
		"more data than length": {
			magic + iface + message(kindConnection, `{"number":1}`) + message(kindPacket, packet+"\x01\x00ab"), "with 2 of 1",
		},
	} {
		if err := Read(strings.NewReader(c.stream), &heard{}); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v; want %q", name, err, c.why)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample(f))
	f.Fuzz(func(_ *testing.T, stream []byte) { _ = Read(bytes.NewReader(stream), &heard{}) })
}

// What does not fit into a message is an error of the writer.
func TestTooLong(t *testing.T) {
	w, err := NewWriter(io.Discard)
	if err = errors.Join(err, w.Packet(&Packet{Data: make([]byte, maxMessage)})); err == nil {
		t.Error("no error")
	}
}

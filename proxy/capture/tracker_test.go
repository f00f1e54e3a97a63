package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/packets"
	"github.com/portald/portald/proxy/record"
)

// Addresses of one connection: client to frontend, proxy to endpoint.
var (
	client   = netip.MustParseAddrPort("10.0.0.1:4000")
	frontend = netip.MustParseAddrPort("10.96.0.10:80")
	local    = netip.MustParseAddrPort("192.168.0.5:5000")
	endpoint = netip.MustParseAddrPort("10.244.0.7:8080")
)

// segment makes a segment of TCP in IPv4, without a link header.
func segment(from, to netip.AddrPort, flags byte, payload string, at int64) *packets.Frame {
	b := make([]byte, 40, 40+len(payload))
	b[0], b[9], b[32], b[33] = 0x45, 6, 5<<4, flags
	copy(b[12:], from.Addr().AsSlice())
	copy(b[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(b[20:], from.Port())
	binary.BigEndian.PutUint16(b[22:], to.Port())
	b = append(b, payload...)
	return &packets.Frame{Time: at, Link: packets.Raw, Length: len(b), Data: b}
}

const (
	syn = 2
	rst = 4
	ack = 16
)

// tracked is a tracker with what it passed on, in words.
type tracked struct {
	*tracker
	out []string
}

func track(t *testing.T, r Request) *tracked {
	t.Helper()
	r.Packets, r.Bytes, r.Duration = 1, 1, 1
	if r.Targets == nil {
		r.Targets = []string{"shop/cart"}
	}
	p, err := r.plan()
	if err != nil {
		t.Fatal(err)
	}
	k := &tracked{}
	k.tracker = newTracker(p, 1<<20, func(c *conn, s Side, f *frame) {
		k.out = append(k.out, fmt.Sprintf("%d: %s of %d, %d bytes", f.Time, s, c.ID, len(f.Data)))
	}, func(*conn) {})
	return k
}

func (k *tracked) want(t *testing.T, lines ...string) {
	t.Helper()
	if got, want := strings.Join(k.out, "\n"), strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	k.out = nil
}

func known(id uint64) *Connection {
	return &Connection{ID: id, Service: "shop/cart:http", Protocol: "tcp", CarriedBy: "userspace", Client: client,
		Frontend: frontend, Proxy: local, Endpoint: endpoint, Pod: "shop/pod"}
}

func begun(id uint64) *Connection {
	c := known(id)
	c.Proxy, c.Endpoint = netip.AddrPort{}, netip.AddrPort{}
	return c
}

// Packets come before it is known whose they are, and go on once it is. Without Payload they are headers.
func TestHeldUntilKnown(t *testing.T) {
	k := track(t, Request{})
	k.packet(segment(client, frontend, syn, "", 1))
	k.packet(segment(frontend, client, syn|ack, "", 2))
	k.packet(segment(local, endpoint, syn, "", 3))
	k.want(t)
	k.learn(begun(7), false)
	k.want(t)
	k.learn(known(7), false)
	k.want(t, "1: client side of 7, 40 bytes", "2: client side of 7, 40 bytes", "3: endpoint side of 7, 40 bytes")
	k.packet(segment(client, frontend, ack, "secret", 4))
	k.want(t, "4: client side of 7, 40 bytes")
	if k.waiting() || k.held.used != 0 {
		t.Error("something is held")
	}
}

// While an endpoint is dialled for long, packets of the client are passed on, unless one endpoint alone is of interest.
func TestDialsLong(t *testing.T) {
	for target, lines := range map[string][]string{
		"shop/cart": {"1: client side of 7, 40 bytes"}, "pod/shop/pod": nil, "pod/shop/other": nil,
	} {
		k := track(t, Request{Targets: []string{target}})
		k.packet(segment(client, frontend, syn, "", 1))
		k.learn(begun(7), false)
		k.byID[7].began = time.Now().Add(-time.Minute)
		k.expire(time.Now(), false)
		k.want(t, lines...)
	}
	k := track(t, Request{Targets: []string{"pod/shop/pod"}})
	k.packet(segment(client, frontend, syn, "", 1))
	k.learn(begun(7), false)
	k.learn(known(7), false)
	k.want(t, "1: client side of 7, 40 bytes")
}

// With an outcome nothing is passed on before the end, and then both sides in the order of time, or nothing.
func TestByOutcome(t *testing.T) {
	for _, c := range []struct {
		outcome record.Outcome
		lines   []string
	}{
		{record.OutcomeOK, nil},
		{record.OutcomeEndpointReset, []string{"1: client side of 7, 46 bytes", "2: endpoint side of 7, 40 bytes",
			"3: client side of 7, 40 bytes", "4: endpoint side of 7, 40 bytes"}},
	} {
		k := track(t, Request{Outcomes: []string{"failed"}, Payload: true})
		k.packet(segment(client, frontend, syn, "secret", 1))
		k.learn(begun(7), false)
		k.packet(segment(local, endpoint, syn, "", 2))
		k.packet(segment(client, frontend, ack, "", 3))
		k.learn(known(7), false)
		k.want(t)
		end := known(7)
		end.Outcome = string(c.outcome)
		k.learn(end, true)
		k.packet(segment(endpoint, local, rst, "", 4)) // it comes later than the news
		k.want(t, c.lines...)
	}
}

// Another connection with the same ports is not taken for the one before.
func TestPortsAreUsedAgain(t *testing.T) {
	k := track(t, Request{})
	end := known(7)
	end.Outcome = "ok"
	k.learn(end, true)
	k.packet(segment(client, frontend, ack, "", 1))
	k.packet(segment(client, frontend, syn, "", 2))
	k.packet(segment(client, frontend, ack, "", 3))
	k.want(t, "1: client side of 7, 40 bytes")
	k.learn(known(8), false)
	k.want(t, "2: client side of 8, 40 bytes", "3: client side of 8, 40 bytes")
}

// Packets of what is not wanted are dropped, also those of other Services to the same endpoint.
func TestUnwanted(t *testing.T) {
	k := track(t, Request{Targets: []string{"pod/shop/other", "client/10.9.0.0/16"}})
	k.packet(segment(client, frontend, syn, "", 1))
	k.learn(known(7), false)
	k.packet(segment(local, endpoint, ack, "", 2))
	k.packet(segment(netip.MustParseAddrPort("10.0.0.9:1"), endpoint, ack, "", time.Now().Add(-time.Hour).UnixNano()))
	k.expire(time.Now(), false)
	k.want(t)
	if k.unwanted != 3 || k.held.used != 0 {
		t.Errorf("%d unwanted, %d bytes held", k.unwanted, k.held.used)
	}
}

// What nobody carries is passed on with its Service: rules refuse it, or drop it.
func TestRefused(t *testing.T) {
	k := track(t, Request{})
	k.frontend = func(at netip.AddrPort) *Connection {
		if at == frontend {
			return &Connection{Service: "shop/cart:http", Protocol: "tcp"}
		}
		return nil
	}
	now := time.Now()
	k.packet(segment(client, frontend, syn, "", now.UnixNano()))
	k.expire(now.Add(time.Second), false)
	k.want(t)
	k.expire(now.Add(3*time.Second), false)
	k.want(t, fmt.Sprintf("%d: client side of 0, 40 bytes", now.UnixNano()))
}

// A local client's packets come to the proxy port, and go from the frontend.
func TestLocalClient(t *testing.T) {
	k := track(t, Request{})
	k.proxyPorts[33333] = true
	k.packet(segment(client, netip.MustParseAddrPort("127.0.0.1:33333"), syn, "", 1))
	k.packet(segment(frontend, client, syn|ack, "", 2))
	k.learn(known(7), false)
	k.want(t, "1: client side of 7, 40 bytes", "2: client side of 7, 40 bytes")
}

// What the kernel carries has no record at first.
func TestKernelGetsItsRecord(t *testing.T) {
	k := track(t, Request{})
	c := known(0)
	c.CarriedBy = "kernel"
	k.learn(c, false)
	k.packet(segment(client, frontend, syn, "", 1))
	k.packet(segment(local, endpoint, syn, "", 2))
	k.learn(known(9), true)
	k.packet(segment(local, endpoint, ack, "", 3))
	k.want(t, "1: client side of 0, 40 bytes", "2: endpoint side of 0, 40 bytes", "3: endpoint side of 9, 40 bytes")
	if len(k.byFront) != 0 || len(k.byID) != 1 {
		t.Errorf("%d and %d connections", len(k.byFront), len(k.byID))
	}
}

// A bulk transfer pushes out its own packets, and the oldest go first if all are too many.
func TestHeldIsBounded(t *testing.T) {
	k := track(t, Request{Payload: true})
	payload := strings.Repeat("x", 1000)
	k.packet(segment(client, frontend, syn, "", 1))
	for i := range 5000 {
		k.packet(segment(local, endpoint, ack, payload, int64(2+i)))
	}
	if k.held.used > 1<<20/share+overhead+40 || k.held.evicted == 0 {
		t.Errorf("%d bytes held, %d evicted", k.held.used, k.held.evicted)
	}
	back := k.key(packets.Flow{Protocol: 6, From: local, To: endpoint})
	if frames := k.held.take(back); frames[0].Time != 2 || frames[len(frames)-1].Time != 5001 {
		t.Errorf("held from %d to %d, want the first and the last", frames[0].Time, frames[len(frames)-1].Time)
	}
	if len(k.held.take(k.key(packets.Flow{Protocol: 6, From: client, To: frontend}))) != 1 {
		t.Error("the bulk transfer has pushed out the packet of another connection")
	}
	for i := range 5000 {
		k.packet(segment(netip.AddrPortFrom(local.Addr(), uint16(i)), endpoint, ack, payload, int64(i)))
	}
	if k.held.used > 1<<20 || k.held.order.Len() == 0 {
		t.Errorf("%d bytes held", k.held.used)
	}
}

// Connections are forgotten some time after their end.
func TestForgotten(t *testing.T) {
	k := track(t, Request{})
	k.learn(known(7), true)
	k.learn(known(8), false)
	k.expire(time.Now().Add(time.Minute), false)
	if len(k.byID) != 1 {
		t.Errorf("%d connections are known, want the open one", len(k.byID))
	}
	k.learn(known(8), true)
	k.expire(time.Now().Add(time.Minute), false)
	if len(k.byID)+len(k.byFront)+len(k.bindings) != 0 {
		t.Errorf("%d connections and %d flows are remembered", len(k.byID), len(k.bindings))
	}
}

func TestCheck(t *testing.T) {
	good := Request{Targets: []string{"shop/cart:http"}, Packets: 1, Bytes: 1, Duration: time.Second}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for why, edit := range map[string]func(r *Request){
		"0 targets":                      func(r *Request) { r.Targets = nil },
		"17 targets":                     func(r *Request) { r.Targets = make([]string, 17) },
		`"a/b/c": must be a Service`:     func(r *Request) { r.Targets = []string{"a/b/c"} },
		`"pod/": must be`:                func(r *Request) { r.Targets = []string{"pod/"} },
		`outcome "bad": must be`:         func(r *Request) { r.Outcomes = []string{"bad"} },
		`filter "vlan 7": the filter`:    func(r *Request) { r.Filter = "vlan 7" },
		"packets 0: must be between":     func(r *Request) { r.Packets = 0 },
		"bytes 1073741825: must":         func(r *Request) { r.Bytes = MaxBytes + 1 },
		"duration 1h0m1s: must be betwe": func(r *Request) { r.Duration = time.Hour + time.Second },
	} {
		r := good
		edit(&r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want %q", err, why)
		}
	}
}

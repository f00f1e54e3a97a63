package splicetest

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func payloadScenarios() []scenario {
	return []scenario{
		{name: "PayloadOfReset", run: payloadOfReset},
		{name: "PayloadOfBulk", run: payloadOfBulk},
		{name: "PayloadNotIfEndedWell", run: payloadNotIfEndedWell},
		{name: "PayloadOfReplay", run: payloadOfReplay},
		{name: "PayloadSinceAnnotation", run: payloadSinceAnnotation},
		{name: "PayloadUntilAnnotationGoes", run: payloadUntilAnnotationGoes},
		{name: "PayloadOfCrash", run: payloadOfCrash},
	}
}

// keeping is a data path with a front of endpoints whose service port keeps payload.
type keeping struct {
	*dataPath
	front *front
}

func (t *trial) keeps(o splice.Options, endpoints ...netip.AddrPort) *keeping {
	t.Helper()
	k := &keeping{dataPath: t.start(o)}
	k.front = k.tcp(endpoints...)
	k.want(service.KeepBadlyEnded)
	return k
}

// want annotates the service port, or not.
func (k *keeping) want(what service.KeepPayload) {
	k.front.change(func(v *splice.View) {
		next := *v.Port
		next.Name, next.Policy.KeepPayload = k.front.Name(), what
		k.Payload.Changed(v.Port, &next)
		v.Port = &next
	})
}

// only returns the one that is kept, of the next record.
func (k *keeping) only() payload.Entry {
	k.t.Helper()
	rec := k.record()
	all := k.Payload.Content().Entries
	if len(all) != 1 || all[0].Record != rec {
		k.t.Fatalf("%d connections are kept, after record %+v", len(all), rec)
	}
	k.letGo()
	return all[0]
}

// letGo expects that no open connection has any.
func (k *keeping) letGo() {
	k.t.Helper()
	k.t.eventually("no memory is taken", func() bool { return k.Stats().PayloadBytes == 0 })
}

// wantStream expects the first and the last 2 kB of a stream, all of which was seen.
func wantStream(t *trial, d payload.Direction, stream []byte) {
	t.Helper()
	var first, last []byte
	n := min(len(stream), payload.Most)
	first = stream[:n]
	begin := max(n, len(stream)-payload.Most)
	if last = stream[begin:]; len(last) == 0 {
		last = nil
	}
	var got [2]payload.Part
	copy(got[:], d.Parts)
	if !bytes.Equal(got[0].Data, first) || got[0].Offset != 0 || !bytes.Equal(got[1].Data, last) ||
		len(last) > 0 && got[1].Offset != int64(begin) || d.Lacks != "" || d.Bytes != int64(len(stream)) {
		t.Errorf("of %d bytes %d at %d and %d at %d are kept, or others, want %d and %d at %d; of %d, lacks %q", len(stream),
			len(got[0].Data), got[0].Offset, len(got[1].Data), got[1].Offset, len(first), len(last), begin, d.Bytes, d.Lacks)
	}
}

// resetAfter is an endpoint that reads so much, answers, and resets when it gets another byte.
func resetAfter(t *trial, n int, answer []byte) netip.AddrPort {
	return serveTCP(t, loopback, func(c *net.TCPConn) {
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			return
		}
		c.Write(answer)
		if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
			reset(c)
		}
	})
}

// asks sends a request and reads the answer to its end, then sends the byte at which the endpoint resets.
func asks(t *trial, at netip.AddrPort, request, answer []byte) {
	t.Helper()
	c := dialTCP(t, at)
	go c.Write(request)
	got := make([]byte, len(answer))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, answer) {
		t.Fatalf("%v after an answer of %d bytes", err, len(answer))
	}
	c.Write([]byte("!"))
	c.Read(got) // until the reset
}

// payloadOfReset: what both sides have sent is there when the endpoint has reset the connection.
func payloadOfReset(t *trial) {
	for _, n := range []int{1, 100, payload.Most - 1, payload.Most, 3000, 2 * payload.Most, 20_000} {
		ask, answer := request(n), request(n+1)
		k := t.keeps(splice.Options{}, resetAfter(t, n, answer))
		asks(t, k.front.at, ask, answer)
		e := k.only()
		if e.Record.Outcome != record.OutcomeEndpointReset {
			t.Errorf("record %+v", e.Record)
		}
		wantStream(t, e.FromClient, append(ask, '!'))
		wantStream(t, e.FromEndpoint, answer)
	}
}

// payloadOfBulk: streams that would be spliced are copied and seen whole.
func payloadOfBulk(t *trial) {
	ask, answer := request(8<<20+11), request(8<<20+7)
	k := t.keeps(splice.Options{}, resetAfter(t, len(ask), answer))
	asks(t, k.front.at, ask, answer)
	e := k.only()
	wantStream(t, e.FromClient, append(ask, '!'))
	wantStream(t, e.FromEndpoint, answer)
}

// payloadNotIfEndedWell: nothing is left of a connection that ends well, nor of one that sent nothing.
func payloadNotIfEndedWell(t *trial) {
	k := t.keeps(splice.Options{}, echoServer(t))
	c := dialTCP(t, k.front.at)
	exchange(t, c)
	k.t.eventually("memory is taken while it is open", func() bool { return k.Stats().PayloadBytes > 0 })
	c.CloseWrite()
	wantRest(t, c, "")
	if rec := k.record(); rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
	c = dialTCP(t, k.front.at)
	t.eventually("it is carried", func() bool {
		all := k.Snapshot()
		return len(all) == 1 && all[0].State == record.StateOpen
	})
	reset(c)
	if rec := k.record(); rec.Outcome == record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
	k.letGo()
	if n := len(k.Payload.Content().Entries); n != 0 {
		t.Errorf("%d connections are kept", n)
	}
}

// payloadOfReplay: a request that two endpoints have got is there once.
func payloadOfReplay(t *trial) {
	ask, answer := request(5000), request(100)
	k := t.keeps(replaying(), failing(t, len(ask), record.Reset), resetAfter(t, len(ask), answer))
	asks(t, k.front.at, ask, answer)
	e := k.only()
	if e.Record.Replays != 1 {
		t.Errorf("record %+v", e.Record)
	}
	wantStream(t, e.FromClient, append(ask, '!'))
	wantStream(t, e.FromEndpoint, answer)
}

// payloadSinceAnnotation: of a connection that is older than the annotation it is said that its beginning was not seen.
func payloadSinceAnnotation(t *trial) {
	k := t.keeps(splice.Options{}, serveTCP(t, loopback, func(c *net.TCPConn) {
		b := make([]byte, 1)
		for b[0] != '!' {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
		reset(c)
	}))
	k.want(service.KeepNoPayload)
	c := dialTCP(t, k.front.at)
	c.Write([]byte("as"))
	t.eventually("the first bytes are carried", func() bool {
		all := k.Snapshot()
		return len(all) == 1 && all[0].BytesToEndpoint == 2
	})
	k.want(service.KeepBadlyEnded)
	t.eventually("the rest is seen", func() bool { // the change comes to the connection soon
		c.Write([]byte("k"))
		return k.Stats().PayloadBytes > 0
	})
	c.Write([]byte("!"))
	io.Copy(io.Discard, c)
	e := k.only()
	d := e.FromClient
	if len(d.Parts) != 1 || d.Parts[0].Offset < 2 || strings.TrimLeft(string(d.Parts[0].Data), "k") != "!" ||
		d.Parts[0].Offset+int64(len(d.Parts[0].Data)) != d.Bytes || !strings.Contains(d.Lacks, "before the annotation") {
		t.Errorf("%d parts, %+v", len(d.Parts), d)
	}
}

// payloadUntilAnnotationGoes: an open connection lets go of what it has when the annotation goes, and goes on.
func payloadUntilAnnotationGoes(t *trial) {
	answer := request(100)
	k := t.keeps(splice.Options{}, resetAfter(t, 4, answer))
	c := dialTCP(t, k.front.at)
	c.Write([]byte("ask."))
	io.ReadFull(c, make([]byte, len(answer)))
	t.eventually("memory is taken", func() bool { return k.Stats().PayloadBytes > 0 })
	k.want(service.KeepNoPayload)
	k.letGo()
	c.Write([]byte("!"))
	io.Copy(io.Discard, c)
	if rec := k.record(); rec.Outcome != record.OutcomeEndpointReset || len(k.Payload.Content().Entries) != 0 {
		t.Errorf("%d are kept, record %+v", len(k.Payload.Content().Entries), rec)
	}
}

// payloadOfCrash: a connection whose endpoint closed it in mid-exchange and refused the next dial has ended badly,
// though that is known only later.
func payloadOfCrash(t *trial) {
	for _, refuses := range []bool{true, false} {
		ln, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		t.must(err)
		t.Cleanup(func() { ln.Close() })
		asked := make(chan struct{}, 10)
		go accept(ln, func(c *net.TCPConn) {
			io.ReadFull(c, make([]byte, 1))
			asked <- struct{}{}
			if refuses {
				ln.Close()
			}
		})
		k := t.keeps(splice.Options{Policy: service.Policy{Dials: 1}}, addrOf(ln.Addr()))
		c := dialTCP(t, k.front.at)
		c.Write([]byte("?"))
		<-asked
		wantRest(t, c, "")
		if next, err := net.Dial("tcp", k.front.at.String()); err == nil { // it may see the reset as early as that
			next.Write([]byte("!"))
			next.Read(make([]byte, 1))
			next.Close()
		}
		c.Close()
		kept := 0
		for range 2 {
			if rec := k.record(); rec.Outcome == record.OutcomeClosedEarly {
				kept++
			}
		}
		all := k.Payload.Content().Entries
		if want := map[bool]int{true: 1}[refuses]; kept != want || len(all) != want {
			t.Fatalf("refuses %t: %d were closed early, %d are kept", refuses, kept, len(all))
		}
		if refuses {
			wantStream(t, all[0].FromClient, []byte("?"))
		}
		k.letGo()
	}
}

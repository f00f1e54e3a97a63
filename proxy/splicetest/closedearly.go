package splicetest

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func closedEarlyScenarios() []scenario {
	const crashes = record.OutcomeClosedEarly
	return []scenario{
		{name: "ClosedEarly", run: func(t *trial) { closesAll(t, crash{refuses: true, want: crashes}) }},
		{name: "ClosedEarlyBeforeAnswer", run: func(t *trial) {
			closesAll(t, crash{refuses: true, silent: true, want: crashes})
		}},
		{name: "ClosedEarlyAndServes", run: func(t *trial) { closesAll(t, crash{want: record.OutcomeOK}) }},
		{name: "ClosedEarlyByTermination", run: func(t *trial) {
			closesAll(t, crash{refuses: true, terminates: true, want: record.OutcomeOK})
		}},
		{name: "ClosedIdle", run: func(t *trial) { closesAll(t, crash{refuses: true, idle: true, want: record.OutcomeOK}) }},
	}
}

// crash is how an endpoint ends all its connections by FIN, and how they are recorded.
type crash struct {
	refuses    bool // the next dial
	silent     bool // it had not answered
	idle       bool // nothing had moved for a while
	terminates bool // it was known to end
	want       record.Outcome
}

// closesAll: connections that an endpoint closes in mid-exchange were closed early if it then refuses dials.
func closesAll(t *trial, how crash) {
	const clients = 3
	ln, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	t.must(err)
	t.Cleanup(func() { ln.Close() })
	crashes, served := make(chan struct{}), make(chan struct{}, clients)
	end := sync.OnceFunc(func() { close(crashes) })
	t.Cleanup(end)
	go accept(ln, func(c *net.TCPConn) {
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			return
		}
		if !how.silent {
			c.Write([]byte("half of an ans"))
		}
		served <- struct{}{}
		<-crashes
	})
	once := service.Policy{ConnectTimeouts: []time.Duration{longest}}
	d := t.start(splice.Options{Policy: once})
	f := d.tcp(addrOf(ln.Addr()))
	var all []*net.TCPConn
	for range clients {
		c := dialTCP(t, f.at)
		c.Write([]byte("?"))
		if !how.silent {
			io.ReadFull(c, make([]byte, len("half of an ans")))
		}
		<-served
		all = append(all, c)
	}
	if how.terminates {
		f.change(func(v *splice.View) {
			v.Endpoints = known(f.ring.list)
			v.Endpoints[0].Ready, v.Endpoints[0].Terminating = false, true
		})
	}
	if how.idle {
		time.Sleep(time.Second) // longer than a pause in an exchange
	}
	if how.refuses {
		ln.Close()
	}
	end()
	for _, c := range all {
		wantRest(t, c, "")
	}
	if next, err := net.Dial("tcp", f.at.String()); err == nil { // it may see the reset as early as that
		next.Write([]byte("?"))
		if how.refuses {
			next.Read(make([]byte, 1))
		} else {
			<-served
		}
		next.Close()
	}
	for _, c := range all {
		c.Close()
	}
	early, told := 0, 0
	for range clients + 1 {
		rec := d.record()
		if rec.ID > clients { // the next one's
			continue
		}
		if rec.Outcome != how.want || rec.ClosedBy != record.Endpoint || rec.CloseType != record.FIN {
			t.Errorf("want %s, have record %+v", how.want, rec)
		}
		crashed := rec.Outcome == record.OutcomeClosedEarly
		if crashed {
			early++
		}
		if last := rec.Attempts[len(rec.Attempts)-1]; last.Ejected != crashed {
			t.Errorf("the endpoint was ejected for it: %t, in %+v", last.Ejected, rec)
		}
	}
	for _, l := range f.ring.given() {
		told += l.crashed()
	}
	if told != early {
		t.Errorf("%d connections were closed early, and the endpoint's state was told of %d", early, told)
	}
}

package main

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answering listens, and answers each piece that comes with the result of change; nil: it hangs up.
func answering(t *testing.T, change func([]byte) []byte) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				data := make([]byte, 10000)
				for {
					n, err := c.Read(data)
					if err != nil {
						return
					}
					answer := change(data[:n])
					if _, err := c.Write(answer); err != nil || answer == nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// An answer equal to the request counts as done, and any other as a failure of its kind.
func TestLoadsCount(t *testing.T) {
	for name, test := range map[string]struct {
		change func([]byte) []byte
		want   string // kind of failure; "" for none
	}{
		"echoes":      {func(b []byte) []byte { return b }, ""},
		"wrong bytes": {func(b []byte) []byte { b[0]++; return b }, "wrong bytes"},
		"hangs up":    {func([]byte) []byte { return nil }, "ended"},
	} {
		at := answering(t, test.change)
		for _, load := range loads("tcp", 0) {
			c, stop := &count{}, make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				load.run(at, c, stop)
			}()
			time.Sleep(300 * time.Millisecond)
			close(stop)
			<-ended
			got := counted{"", load.title, c}
			well := c.done > 0 && got.failed() == 0
			if well != (test.want == "") || !strings.Contains(got.String(), test.want) {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
}

// Connections whose life is short end well, and others follow until the load is stopped.
func TestOpenConnectionsEnd(t *testing.T) {
	var opened atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			opened.Add(1)
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	c, stop := &count{}, make(chan struct{})
	time.AfterFunc(time.Second, func() { close(stop) })
	keepOpen(l.Addr().String(), 100*time.Millisecond, c, stop)
	if got := (counted{"", "", c}); c.done == 0 || got.failed() > 0 || opened.Load() < 2 {
		t.Errorf("%d connections: %s", opened.Load(), got)
	}
}

// A datagram without an answer is sent once more if the load is to do that.
func TestDatagramsAreSentOnceMore(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		data := make([]byte, 512)
		for i := 0; ; i++ {
			n, from, err := l.ReadFrom(data)
			if err != nil {
				return
			}
			if i > 0 { // the first one is lost
				_, _ = l.WriteTo(data[:n], from)
			}
		}
	}()
	conn, err := net.Dial("udp", l.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &count{resends: true}
	if err := ask(conn, echoOf(), c); err != nil || c.resent != 1 {
		t.Errorf("%v, sent once more %d times", err, c.resent)
	}
}

// A server of IPv6 is asked for an address of IPv6: in a cluster of IPv6 alone there is no other.
func TestNamesAreAskedForInTheFamilyOfTheServer(t *testing.T) {
	for _, test := range []struct {
		address string
		record  byte
	}{{"127.0.0.1:0", ipv4Address}, {"[::1]:0", ipv6Address}} {
		l, err := net.ListenPacket("udp", test.address)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for data := make([]byte, 512); ; {
				n, from, err := l.ReadFrom(data)
				if err != nil {
					return
				}
				if data[n-3] == test.record {
					data[7] = 1 // answers
				}
				_, _ = l.WriteTo(data[:n], from)
			}
		}()
		for _, load := range loads("dns", 0) {
			c, stop := &count{}, make(chan struct{})
			time.AfterFunc(200*time.Millisecond, func() { close(stop) })
			load.run(l.LocalAddr().String(), c, stop)
			if got := (counted{"", load.title, c}); c.done == 0 || got.failed() > 0 {
				t.Errorf("%s: %s", test.address, got)
			}
		}
		_ = l.Close()
	}
}

package splicetest

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func headerScenarios() []scenario {
	return []scenario{
		{name: "ProxyV2", run: proxyV2},
		{name: "ProxyV2ServerSpeaksFirst", run: proxyV2ServerSpeaksFirst},
		{name: "ProxyV2UDP", run: proxyV2UDP},
	}
}

var withHeader = splice.Options{Policy: service.Policy{ClientAddress: service.AddressProxyV2}}

// headerOf is the PROXY protocol v2 header of a connection from a client to what it dialled.
func headerOf(client, dst netip.AddrPort) string {
	const tcp4, tcp6 = 0x11, 0x21
	header := []byte("\r\n\r\n\x00\r\nQUIT\n\x21")
	family := byte(tcp4)
	if client.Addr().Is6() {
		family = tcp6
	}
	addrs := append(client.Addr().AsSlice(), dst.Addr().AsSlice()...)
	header = append(header, family)
	header = binary.BigEndian.AppendUint16(header, uint16(len(addrs)+4))
	header = append(header, addrs...)
	header = binary.BigEndian.AppendUint16(header, client.Port())
	return string(binary.BigEndian.AppendUint16(header, dst.Port()))
}

// proxyV2: the header is the first that an endpoint receives, and is no byte of the client's.
func proxyV2(t *trial) {
	t.both(func(t *trial, host string) {
		received := make(chan string, 1)
		live := serveTCP(t, host, func(c *net.TCPConn) {
			all, _ := io.ReadAll(c)
			received <- string(all)
			c.Write([]byte("bye"))
		})
		d := t.start(withHeader)
		f := d.open(inet.TCP, host, t.refusing(), live)
		c := dialTCP(t, f.at)
		c.Write([]byte("hello"))
		c.CloseWrite()
		if got, want := <-received, headerOf(addrOf(c.LocalAddr()), f.at)+"hello"; got != want {
			t.Errorf("the endpoint received %q, want %q", got, want)
		}
		wantRest(t, c, "bye")
		rec := d.record()
		if rec.BytesFromClient != 5 || rec.BytesFromEndpoint != 3 || rec.Outcome != record.OutcomeOK ||
			len(rec.Attempts) != 2 {
			t.Errorf("record %+v", rec)
		}
	})
}

// proxyV2ServerSpeaksFirst: the header is sent for a client that sends nothing, since the server may wait for it.
func proxyV2ServerSpeaksFirst(t *trial) {
	d := t.start(withHeader)
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		if _, err := io.ReadFull(c, make([]byte, 28)); err == nil {
			c.Write([]byte("220 hello"))
		}
		io.Copy(io.Discard, c)
	}))
	c := dialTCP(t, f.at)
	greeting := make([]byte, 9)
	if _, err := io.ReadFull(c, greeting); err != nil || string(greeting) != "220 hello" {
		t.Fatalf("got %q, %v", greeting, err)
	}
	c.Close()
	if rec := d.record(); rec.BytesFromClient != 0 || rec.FirstByte < 0 {
		t.Errorf("record %+v", rec)
	}
}

// proxyV2UDP: UDP has no header.
func proxyV2UDP(t *trial) {
	d := t.start(withHeader)
	wantAnswer(t, dialUDP(t, d.udp(named(t, "a")).at), "x", "a x")
}

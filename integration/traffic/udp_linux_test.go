package traffic

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// steady is a UDP client with a fixed source port.
type steady struct {
	*bed.Bed
	net.Conn
}

// steadyClient connects a UDP socket to an address: it receives only replies from that address.
func steadyClient(b *bed.Bed, to string) steady {
	b.Helper()
	c, err := b.Client.Dial(b.Context(), "udp", to)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return steady{b, c}
}

// ask sends one datagram and returns the pod that answered, "" if none did within three seconds.
func (s steady) ask() string {
	_ = s.SetDeadline(time.Now().Add(3 * time.Second))
	_, _ = s.Write([]byte(bed.WhoAreYou)) // may return the ICMP error of the previous datagram
	buf := make([]byte, 100)
	n, err := s.Read(buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

func TestUDPSessionMovesFromARemovedEndpoint(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	d := b.Start(b.Cart(0))
	for _, addr := range []string{bed.IP4, bed.IP6} {
		c := steadyClient(b, bed.HostPort(addr, 80))
		for range 3 {
			if got := c.ask(); got != "pod0" {
				t.Fatalf("%s: answered by %q, want pod0", addr, got)
			}
		}
		d.Apply(b.Cart(0, 1))
		if got := c.ask(); got != "pod0" {
			t.Errorf("%s: with a second endpoint, answered by %q, want pod0 still", addr, got)
		}
		d.Apply(b.Cart(1))
		answers := 4
		b.Eventually("pod1 to answer once pod0 is removed", func() bool { // sessions hear of it a moment later
			got := c.ask()
			if got == "pod0" {
				answers++
			}
			return got == "pod1"
		})
		r := d.RecordOf(bed.Answer{Client: bed.LocalAddr(c)})
		if r.Outcome != "endpoint_removed" || r.Pod != "shop/pod0" || r.BytesFromEndpoint != int64(answers*len("pod0")) {
			t.Errorf("%s: recorded as %s", addr, r)
		}
		d.Apply(b.Cart(0))
	}
}

// The pod's port is closed while its slice still lists it: the session moves to another pod on the ICMP error.
func TestUDPSessionMovesFromADeadEndpoint(t *testing.T) {
	for _, addr := range []string{bed.IP4, bed.IP6} {
		t.Run(addr, func(t *testing.T) {
			b := bed.New(t)
			stop := b.ServePods(0, 1)
			b.Start(b.Cart(0, 1))
			c := steadyClient(b, bed.HostPort(addr, 80))
			first := c.ask()
			if first == "" {
				t.Fatal("no answer at first")
			}
			stop[first[3]-'0']()
			b.Eventually("the other pod to answer", func() bool { got := c.ask(); return got != "" && got != first })
		})
	}
}

func TestUDPClientOutlastsALackOfEndpoints(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart())
	c4, c6, node := steadyClient(b, bed.HostPort(bed.IP4, 80)), steadyClient(b, bed.HostPort(bed.IP6, 80)),
		steadyClient(b, bed.HostPort(b.Node.IPv4.String(), bed.NodePort))
	for range 2 {
		for _, c := range []steady{c4, c6, node} {
			if got := c.ask(); got != "" {
				t.Errorf("answered by %q, but the Service has no endpoints", got)
			}
		}
		d.Apply(b.Cart(0))
		for _, c := range []steady{c4, c6, node} {
			b.Eventually("an answer on the same port", func() bool { return c.ask() == "pod0" })
		}
		d.Apply(b.Cart())
	}
}

// The client sends before the Service exists: its conntrack entry without translation must not outlive the new rules.
func TestUDPClientWasThereFirst(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	other := bed.Service{Name: "other", IPs: []string{"10.96.9.9"}, Ports: b.Cart().Ports[:1]}
	d := b.Start(other)
	c := steadyClient(b, bed.HostPort(bed.IP4, 80))
	for range 3 {
		c.ask()
	}
	d.Apply(b.Cart(0))
	b.Eventually("an answer on the same port", func() bool { return c.ask() == "pod0" })
}

func TestUDPClientOutlastsPortald(t *testing.T) {
	for name, end := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			b.ServePods(0)
			const tries = 8
			for try := 1; !udpClientOutlastsPortald(b, fmt.Sprint("10.96.7.", try), end, try < tries); try++ {
			}
		})
	}
}

// udpClientOutlastsPortald has a client of a Service ask while portald ends and another one starts. False: it was not
// tried, since Wine 8.0 keeps a UDP socket of every fifth program that is killed, and may keep this one.
func udpClientOutlastsPortald(b *bed.Bed, ip string, end syscall.Signal, mayKeep bool) bool {
	talk := bed.Service{Name: "talk", IPs: []string{ip}, Ports: b.Cart().Ports[1:], Pods: b.Endpoints(0)}
	d := b.Start(talk, "--on-exit=remove")
	at := bed.HostPort(ip, 80)
	c := steadyClient(b, at)
	b.Eventually("an answer", func() bool { return c.ask() == "pod0" })
	d.Signal(end)
	for ended := false; !ended; {
		select {
		case <-d.Ended:
			ended = true
		default:
			c.ask()
		}
	}
	for range 3 {
		if got := c.ask(); got != "" {
			b.Errorf("answered by %q although portald has ended", got)
		}
	}
	if bed.OnWindows && mayKeep && strings.Contains(b.On(b.Node, "ss", "-Huln"), at) {
		return false
	}
	other := bed.Service{Name: "a-first", IPs: []string{"10.96.9.9"}, Ports: b.Cart().Ports, Pods: b.Endpoints(1)}
	b.Start(other.String() + talk.String()) // it listens on other ports than before
	b.Eventually("an answer on the same port", func() bool { return c.ask() == "pod0" })
	return true
}

// Datagrams of every size up to the largest arrive complete; IP fragments them on the wire.
func TestLargeDatagrams(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.Start(b.Cart(0))
	for _, addr := range []string{bed.IP4, bed.IP6} {
		c := steadyClient(b, bed.HostPort(addr, 80))
		largest := 65535 - 8 - 20
		if addr == bed.IP6 {
			largest = 65535 - 8
		}
		for _, size := range []int{1, 1472, 1473, 9000, 32 << 10, largest} {
			sent, got := make([]byte, size), make([]byte, 1<<16)
			_, _ = rand.Read(sent)
			_ = c.SetDeadline(time.Now().Add(bed.AnswerTimeout))
			if _, err := c.Write(sent); err != nil {
				t.Fatalf("%s: send %d bytes: %v", addr, size, err)
			}
			if n, err := c.Read(got); err != nil || !bytes.Equal(got[:n], sent) {
				t.Errorf("%s: sent %d bytes, received %d or other bytes, %v", addr, size, n, err)
			}
		}
	}
}

func TestUDPIdleSessionEnds(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0), "--udp-timeout=6s")
	c := steadyClient(b, bed.HostPort(bed.IP4, 80))
	for range 4 {
		if got := c.ask(); got != "pod0" {
			t.Fatalf("answered by %q", got)
		}
		time.Sleep(2400 * time.Millisecond) // less than the timeout, which every datagram restarts
	}
	r := d.RecordOf(bed.Answer{Client: bed.LocalAddr(c)})
	if r.Outcome != "ok" || r.ClosedBy != "proxy" || r.CloseType != "timeout" ||
		r.BytesFromClient != 4*int64(len(bed.WhoAreYou)) {
		t.Errorf("recorded as %s, %d bytes", r, r.BytesFromClient)
	}
	if got := c.ask(); got != "pod0" {
		t.Errorf("after the session's end, answered by %q", got)
	}
}

// A daemon that gets SIGTERM waits for the answer to a pending UDP request, with each --on-exit, and then ends at once.
func TestTermWaitsForUDPAnswer(t *testing.T) {
	bed.NeedsLinux(t, "Wine knows no SIGTERM")
	for _, exit := range []string{"kernel", "remove"} {
		t.Run(exit, func(t *testing.T) {
			b := bed.New(t)
			pc, err := b.Net.Pod(0).ListenPacket("udp", fmt.Sprintf("[::]:%d", bed.PodPort))
			if err != nil {
				t.Fatal(err)
			}
			defer pc.Close()
			d := b.Start(b.Cart(0), "--on-exit="+exit)
			c := steadyClient(b, bed.HostPort(bed.IP4, 80))
			if _, err := c.Write([]byte("slow")); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 100)
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				t.Fatal(err)
			}
			d.Signal(syscall.SIGTERM)
			b.Eventually("the drain", func() bool { return strings.Contains(d.Log.String(), "Draining") })
			time.Sleep(500 * time.Millisecond)
			if _, err := pc.WriteTo(buf[:n], from); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(bed.AnswerTimeout))
			if n, err := c.Read(buf); err != nil || string(buf[:n]) != "slow" {
				t.Errorf("got %q, %v", buf[:n], err)
			}
			answered := time.Now()
			if code := d.Exit(); code != 0 || time.Since(answered) > 4*time.Second {
				t.Errorf("code %d, %v after the last answer", code, time.Since(answered))
			}
		})
	}
}

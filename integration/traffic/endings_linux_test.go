package traffic

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// One side closes its direction and the other continues: first the client, after its request; then the server, after
// its answer.
func TestHalfClose(t *testing.T) {
	b := bed.New(t)
	b.Serve(b.Net.Pod(0), bed.PodPort, func(c *net.TCPConn) {
		request, _ := io.ReadAll(c)
		time.Sleep(300 * time.Millisecond)
		_, _ = c.Write(append([]byte("you said "), request...))
	})
	b.Serve(b.Net.Pod(0), 9001, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "that is all")
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	})
	cart := b.Cart(0)
	cart.Ports = append(cart.Ports, bed.NewPort("greet", "TCP", 81, 0, 9001))
	d := b.Start(cart)

	c, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "hello")
	_ = c.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "you said hello" || err != nil {
		t.Errorf("after the client's FIN came %q, %v", got, err)
	}
	r := d.RecordOf(bed.Answer{Client: bed.LocalAddr(c)})
	if r.ClosedBy != "client" || r.CloseType != "fin" || r.Outcome != "ok" || r.BytesFromClient != 5 ||
		r.BytesFromEndpoint != 14 {
		t.Errorf("recorded as %s, %d and %d bytes", r, r.BytesFromClient, r.BytesFromEndpoint)
	}

	c, err = bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(bed.IP6, 81))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); string(got) != "that is all" || err != nil {
		t.Errorf("the server sent %q, %v", got, err)
	}
	time.Sleep(300 * time.Millisecond)
	if n, err := c.Write(make([]byte, 1000)); n != 1000 || err != nil {
		t.Errorf("after the server's FIN the client wrote %d bytes: %v", n, err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	r = d.RecordOf(bed.Answer{Client: bed.LocalAddr(c)})
	if r.ClosedBy != "endpoint" || r.CloseType != "fin" || r.Outcome != "ok" || r.BytesFromClient != 1000 ||
		r.BytesFromEndpoint != 11 {
		t.Errorf("recorded as %s, %d and %d bytes", r, r.BytesFromClient, r.BytesFromEndpoint)
	}
}

func TestHalfCloseTimeout(t *testing.T) {
	b := bed.New(t)
	b.Serve(b.Net.Pod(0), bed.PodPort, func(c *net.TCPConn) { _, _ = io.ReadAll(c); time.Sleep(3 * time.Second) })
	d := b.Start(b.Cart(0), "--half-close-timeout=500ms")
	c, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).CloseWrite()
	r := d.RecordOf(bed.Answer{Client: bed.LocalAddr(c)})
	if r.Outcome != "half_close_timeout" || r.ClosedBy != "proxy" || r.CloseType != "timeout" || r.DurationMS > 2000 {
		t.Errorf("recorded as %s after %v ms", r, r.DurationMS)
	}
}

// A reset by either side reaches the other side as a reset.
func TestResetsArePassedOn(t *testing.T) {
	b := bed.New(t)
	seen := make(chan error, 1)
	b.Serve(b.Net.Pod(0), bed.PodPort, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "ready\n")
		_, err := io.ReadAll(c)
		seen <- err
	})
	b.Serve(b.Net.Pod(0), 9001, func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.SetLinger(0)
	})
	cart := b.Cart(0)
	cart.Ports = append(cart.Ports, bed.NewPort("rude", "TCP", 81, 0, 9001))
	d := b.Start(cart)

	c, _, a := b.Open(bed.HostPort(bed.IP4, 80))
	_ = c.SetLinger(0)
	c.Close()
	if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client reset, and the endpoint saw %v", err)
	}
	if r := d.RecordOf(a); r.ClosedBy != "client" || r.CloseType != "reset" || r.Outcome != "client_reset" {
		t.Errorf("recorded as %s", r)
	}

	if bed.OnWindows {
		return // Wine shows a reset as an end, if it came before the read began
	}
	rude, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, 81))
	if err != nil {
		t.Fatal(err)
	}
	defer rude.Close()
	_, _ = io.WriteString(rude, "x")
	if _, err := io.ReadAll(rude); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the endpoint reset, and the client saw %v", err)
	}
	if r := d.RecordOf(bed.Answer{Client: bed.LocalAddr(rude)}); r.ClosedBy != "endpoint" || r.CloseType != "reset" ||
		r.Outcome != "endpoint_reset" {
		t.Errorf("recorded as %s", r)
	}
}

// uploadSize is how much TestUpload sends, in bytes.
const uploadSize = 200 << 20

func TestUpload(t *testing.T) {
	b := bed.New(t)
	var got atomic.Int64
	b.Serve(b.Net.Pod(0), bed.PodPort, func(c *net.TCPConn) {
		sum := sha256.New()
		n, _ := io.Copy(sum, c)
		got.Store(n)
		_, _ = io.WriteString(c, hex.EncodeToString(sum.Sum(nil)))
	})
	d := b.Start(b.Cart(0))
	c, err := bed.Dial(bed.LongestTest, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sum := sha256.New()
	block := make([]byte, 1<<20)
	_, _ = rand.Read(block)
	for i := range uploadSize / len(block) {
		block[0], block[1] = byte(i), byte(i>>8) // all blocks differ, so that a swap changes the checksum
		sum.Write(block)
		if _, err := c.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(c)
	if want := hex.EncodeToString(sum.Sum(nil)); string(answer) != want || err != nil || got.Load() != uploadSize {
		t.Errorf("the endpoint has %d bytes with sum %s, %v, want %d with %s", got.Load(), answer, err, uploadSize, want)
	}
	if r := d.RecordOf(bed.Answer{Client: bed.LocalAddr(c)}); r.BytesFromClient != uploadSize ||
		r.BytesFromEndpoint != 64 {
		t.Errorf("recorded %d bytes from the client and %d from the endpoint", r.BytesFromClient, r.BytesFromEndpoint)
	}
}

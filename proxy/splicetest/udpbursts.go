package splicetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// udpBursts: datagrams that come at once arrive as they were sent, each by itself, be they of one size or of many.
func udpBursts(t *trial) {
	t.both(func(t *trial, host string) {
		d := t.start(splice.Options{})
		f := d.open(inet.UDP, host, echoDatagrams(t, host))
		first, second := dialUDP(t, f.at), dialUDP(t, f.at)
		for range 30 {
			all := burst()
			if err := carriedBoth(all, first, second); err != nil {
				t.Error(err)
			}
		}
	})
}

// burst is a series of datagrams as applications send them: several of one size, the last one smaller, and others.
func burst() (all [][]byte) {
	sizes := []int{0, 1, 9, 200, 1200, 1200, 1200, 1472, 3000}
	for bytes := 0; len(all) < 30; {
		size := sizes[rand.IntN(len(sizes))]
		for n := range 1 + rand.IntN(8) {
			if bytes += size + 500; bytes > 60_000 {
				return all
			}
			if n > 0 && rand.IntN(8) == 0 {
				all = append(all, noiseOf(rand.IntN(size+1)))
				break
			}
			all = append(all, noiseOf(size))
		}
	}
	return all
}

// carriedBoth has two clients send all in turns, and compares what comes back.
func carriedBoth(all [][]byte, first, second net.Conn) error {
	both := []net.Conn{first, second}
	for _, data := range all {
		for _, c := range both {
			if _, err := c.Write(data); err != nil {
				return err
			}
		}
	}
	for _, c := range both {
		if err := comeBack(c, all); err != nil {
			return err
		}
	}
	return nil
}

// comeBack expects datagrams, in any order: the kernel may change it where a sender moves to another CPU.
func comeBack(c net.Conn, all [][]byte) error {
	var want, got []string
	c.SetReadDeadline(time.Now().Add(longest))
	buf := make([]byte, mostDatagram)
	for _, data := range all {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("after %d of %d datagrams: %w", len(got), len(all), err)
		}
		want, got = append(want, string(data)), append(got, string(buf[:n]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Errorf("sent datagrams of %d bytes, and of %d came back", sizesOf(want), sizesOf(got))
	}
	return nil
}

func sizesOf(all []string) (sizes []int) {
	for _, data := range all {
		sizes = append(sizes, len(data))
	}
	return sizes
}

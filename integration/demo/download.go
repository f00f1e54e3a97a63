//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// downloadRate is how many bytes a client reads in a second until its limit is lifted.
const downloadRate = 4_000_000

// download is a client that gets the file, at a limited rate at first.
type download struct {
	conn net.Conn
	got  atomic.Int64
	sum  hash.Hash
	lift chan struct{} // closed: without a limit
	done chan struct{}
	err  error // valid once done is closed
}

// startDownload requests the file, and returns once the first bytes are there.
func startDownload(ctx context.Context, dial dialer, address string) (*download, error) {
	c, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(fileTimeout))
	d := &download{conn: c, sum: sha256.New(), lift: make(chan struct{}), done: make(chan struct{})}
	if _, err = io.WriteString(c, fileRequest+"\n"); err == nil {
		err = d.read(make([]byte, 1))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	go d.run()
	return d, nil
}

func (d *download) read(buf []byte) error {
	n, err := d.conn.Read(buf)
	d.sum.Write(buf[:n])
	d.got.Add(int64(n))
	return err
}

func (d *download) run() {
	defer close(d.done)
	defer d.conn.Close()
	buf := make([]byte, 64<<10)
	for {
		before := d.got.Load()
		if err := d.read(buf); err != nil {
			if !errors.Is(err, io.EOF) {
				d.err = fmt.Errorf("the download broke after %d bytes: %w", d.got.Load(), err)
			}
			return
		}
		select {
		case <-d.lift:
		case <-time.After(time.Duration(d.got.Load()-before) * time.Second / downloadRate):
		}
	}
}

// finish lifts the limit, waits for the end, and compares what came with the file.
func (d *download) finish() (sum string, err error) {
	close(d.lift)
	<-d.done
	if d.err != nil {
		return "", d.err
	}
	sum = fmt.Sprintf("%x", d.sum.Sum(nil))
	if sum != fileSum() {
		return "", fmt.Errorf("%d bytes with the sha256 %s were downloaded, want %d bytes with %s", d.got.Load(), sum,
			fileSize, fileSum())
	}
	return sum, nil
}

// close ends a download, also one under way.
func (d *download) close() {
	_ = d.conn.Close()
	<-d.done
}

// watch displays the download for a time: continuously on a terminal, once at the end elsewhere. It must not end.
func (s *show) watch(ctx context.Context, d *download, state string, during time.Duration) error {
	const frame = 100 * time.Millisecond
	for end := time.Now().Add(during); time.Now().Before(end); {
		if s.live {
			s.progress(d, state)
			fmt.Fprint(s.out, "\x1b[1A")
		}
		if err := pause(ctx, frame); err != nil {
			return err
		}
	}
	s.progress(d, state)
	select {
	case <-d.done:
		return errors.Join(d.err, fmt.Errorf("the download has ended early, after %d bytes", d.got.Load()))
	default:
		return nil
	}
}

// progress writes one line with a bar.
func (s *show) progress(d *download, state string) {
	const longest = 48
	got := d.got.Load()
	n := int(got * longest / fileSize)
	s.line("%-14s  %s %3d of %d MB", state, s.ink.good(strings.Repeat("█", n))+
		s.ink.dim(strings.Repeat("·", longest-n)), got/1e6, int(fileSize/1e6))
}

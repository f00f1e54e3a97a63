package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// count has the counters of one load. It is safe for concurrent use.
type count struct {
	resends bool // a datagram without an answer is sent once more
	mu      sync.Mutex
	done    int
	bytes   int
	slowest time.Duration
	resent  int
	bad     map[string]int
	first   string
}

// ok counts a success, with its duration.
func (c *count) ok(took time.Duration, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	c.bytes += bytes
	c.slowest = max(c.slowest, took)
}

// again counts a datagram that is sent once more.
func (c *count) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resent++
}

// failure counts what did not, by kind, and keeps the first.
func (c *count) failure(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad == nil {
		c.bad = map[string]int{}
		c.first = time.Now().UTC().Format("15:04:05.000 ") + err.Error()
	}
	c.bad[kindOf(err)]++
}

func kindOf(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "lost"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "ended"
	case errors.Is(err, errWrong):
		return "wrong bytes"
	}
	return "other"
}

// counted is a count with its names.
type counted struct {
	target, title string
	*count
}

func (c counted) failed() (n int) {
	for _, one := range c.bad {
		n += one
	}
	return n
}

func (c counted) String() string {
	text := fmt.Sprintf("%-12s %-28s %8d", c.target, c.title, c.done)
	if c.bytes > 0 {
		text += fmt.Sprintf("  %6.1f MB", float64(c.bytes)/1e6)
	} else {
		text += "           "
	}
	text += fmt.Sprintf("  slowest %6.0f ms  failed %d", float64(c.slowest.Microseconds())/1e3, c.failed())
	if c.resent > 0 {
		text += fmt.Sprintf(", sent once more %d", c.resent)
	}
	for kind, n := range c.bad {
		text += fmt.Sprintf(", %s %d", kind, n)
	}
	if c.first != "" {
		text += "; first " + c.first
	}
	return text
}

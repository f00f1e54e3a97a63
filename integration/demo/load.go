//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// breath is what each client of a load waits between two connections: they show a proxy at work, and measure nothing.
const breath = 3 * time.Millisecond

// load is clients that connect, ask and close until it ends.
type load struct {
	stopped atomic.Bool
	wg      sync.WaitGroup

	mu     sync.Mutex
	served counts
	failed int
	first  error // of those that failed
}

// startLoad starts n clients on the client's host, at the ClusterIP.
func (s *show) startLoad(n int) *load {
	l := &load{served: counts{}}
	host, address := s.net.Client(0), net.JoinHostPort(cartIP, httpPort)
	for range n {
		l.wg.Go(func() {
			err := host.Do(func() error {
				l.client(address)
				return nil
			})
			if err != nil {
				l.note("", err)
			}
		})
	}
	return l
}

// client runs on a thread in the client's namespace, where it dials by itself: that is cheaper than a thread a dial.
func (l *load) client(address string) {
	for ; !l.stopped.Load(); time.Sleep(breath) {
		l.note(ask(context.Background(), new(net.Dialer).DialContext, "tcp", address))
	}
}

func (l *load) note(pod string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.served[pod]++
		return
	}
	if l.failed++; l.first == nil {
		l.first = err
	}
}

// end stops the clients and waits for their last answers.
func (l *load) end() {
	l.stopped.Store(true)
	l.wg.Wait()
}

func (l *load) count(pod string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.served[pod]
}

// total counts the connections that were answered.
func (l *load) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0
	for _, n := range l.served {
		sum += n
	}
	return sum
}

// failures counts those that were not.
func (l *load) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *load) failure() error {
	if n := l.failures(); n > 0 {
		return fmt.Errorf("%d connections failed, the first so: %w", n, l.first)
	}
	return nil
}

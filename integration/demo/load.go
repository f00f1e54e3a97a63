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

// connectInterval is the pause of a client between two connections: the load is for display, not for measurement.
const connectInterval = 3 * time.Millisecond

// load is a group of clients that connect, send a request and close, until end is called.
type load struct {
	stopped atomic.Bool
	wg      sync.WaitGroup

	mu     sync.Mutex
	served counts
	failed int
	first  error         // the first failure
	waited time.Duration // by the client that waited longest for its answer
}

// startLoad starts n clients on the client host that connect to the ClusterIP.
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
				l.note("", 0, err)
			}
		})
	}
	return l
}

// client runs on a thread in the client's namespace and dials from there: a thread for each dial would be expensive.
func (l *load) client(address string) {
	for ; !l.stopped.Load(); time.Sleep(connectInterval) {
		began := time.Now()
		pod, err := ask(context.Background(), new(net.Dialer).DialContext, "tcp", address)
		l.note(pod, time.Since(began), err)
	}
}

func (l *load) note(pod string, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waited = max(l.waited, took)
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

// failures counts the connections that failed.
func (l *load) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *load) failure() error {
	if n := l.failures(); n > 0 {
		return fmt.Errorf("%d connections failed, first error: %w", n, l.first)
	}
	return nil
}

// phase is the duration of one part of a scene under load; a scene makes about a thousand connections.
const phase = 1300 * time.Millisecond

// proveLoad compares the counts of clients that have ended with the records, and prints that of the highest interest.
func (s *show) proveLoad(ctx context.Context, l *load, interest func(record string) int) ([]string, error) {
	if err := l.failure(); err != nil {
		return nil, err
	}
	total := l.total()
	records, err := s.showRecords(ctx, total, 1, interest)
	if err != nil {
		return nil, err
	}
	if ok := containing(records, "  ok  fin by client"); ok != total {
		return nil, fmt.Errorf("%d of %d records say ok", ok, total)
	}
	return records, nil
}

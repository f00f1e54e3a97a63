package api

import (
	"sync"
	"time"

	"github.com/portald/portald/integration/bed"
)

// traffic is a few clients that connect repeatedly, at a rate that leaves CPU time to others.
type traffic struct {
	from   *bed.Bed
	to     string
	quit   chan struct{}
	wg     sync.WaitGroup
	mu     sync.Mutex
	count  map[string]int // answers by pod
	failed []error
}

const (
	trafficClients = 4
	trafficPause   = 20 * time.Millisecond
)

// startTraffic starts the clients.
func startTraffic(b *bed.Bed, to string) *traffic {
	t := &traffic{from: b, to: to, quit: make(chan struct{}), count: map[string]int{}}
	for range trafficClients {
		t.wg.Go(t.run)
	}
	return t
}

func (t *traffic) run() {
	for {
		a, err := bed.Ask(t.from.Client, "tcp", t.to)
		t.mu.Lock()
		if err != nil {
			t.failed = append(t.failed, err)
		} else {
			t.count[a.Pod]++
		}
		t.mu.Unlock()
		select {
		case <-t.quit:
			return
		case <-time.After(trafficPause):
		}
	}
}

// served is the number of answered connections so far.
func (t *traffic) served() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.count {
		n += k
	}
	return n
}

// stop stops the clients and returns the number of answered connections. A failed connection fails the test.
func (t *traffic) stop() int {
	t.from.Helper()
	close(t.quit)
	t.wg.Wait()
	if len(t.failed) > 0 {
		t.from.Errorf("%d connections failed, the first: %v; served: %v", len(t.failed), t.failed[0], t.count)
	}
	return t.served()
}

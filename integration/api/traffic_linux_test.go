package api

import (
	"sync"
	"time"

	"github.com/portald/portald/integration/bed"
)

// traffic is a few clients that connect again and again, as many times a second as leaves the machine room for more.
type traffic struct {
	from   *bed.Bed
	to     string
	quit   chan struct{}
	wg     sync.WaitGroup
	mu     sync.Mutex
	count  map[string]int // by who answered
	failed []error
}

const (
	trafficClients = 4
	trafficPause   = 20 * time.Millisecond
)

// traffic starts them.
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

// served is how many connections were answered so far.
func (t *traffic) served() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.count {
		n += k
	}
	return n
}

// stop ends them and returns how many connections were answered. One that failed fails the test.
func (t *traffic) stop() int {
	t.from.Helper()
	close(t.quit)
	t.wg.Wait()
	if len(t.failed) > 0 {
		t.from.Errorf("%d connections failed, the first: %v; served: %v", len(t.failed), t.failed[0], t.count)
	}
	return t.served()
}

//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// limit is for what normally takes milliseconds: it keeps a busy machine from waiting for ever.
const limit = time.Minute

// page is what the user sees: sentences, commands, and what commands write.
type page struct {
	out   io.Writer
	ended chan struct{} // closed when portald has ended
	mu    sync.Mutex
	new   string // what was written since until found something
}

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.new += string(text)
	return p.out.Write(text)
}

// until waits until these texts have been written, one after the other.
func (p *page) until(texts ...string) error {
	for end := time.Now().Add(limit); len(texts) > 0; {
		p.mu.Lock()
		_, after, found := strings.Cut(p.new, texts[0])
		if found {
			p.new, texts = after, texts[1:]
		}
		p.mu.Unlock()
		if found {
			continue
		}
		select {
		case <-p.ended:
			return fmt.Errorf("wait for %q: portald has ended", texts[0])
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("wait for %q: it did not come within %v", texts[0], limit)
		}
	}
	return nil
}

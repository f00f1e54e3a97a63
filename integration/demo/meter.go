//go:build linux

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// meter displays a load: for each pod a bar with its share of the current connection rate.
type meter struct {
	page  *page
	load  *load
	pods  []string
	drawn bool
	rates [3]float64 // connections per second, smoothed
	seen  [3]int
	at    time.Time
}

func newMeter(p *page, l *load) *meter {
	return &meter{page: p, load: l, pods: []string{"cart-a", "cart-b", "cart-c"}, at: time.Now()}
}

// run displays the load for a time: continuously on a terminal, once at the end elsewhere.
func (m *meter) run(ctx context.Context, state string, during time.Duration) error {
	const frame = 100 * time.Millisecond
	for end := time.Now().Add(during); time.Now().Before(end); {
		if err := pause(ctx, frame); err != nil {
			return err
		}
		m.measure()
		if m.page.live {
			m.draw(state)
		}
	}
	if !m.page.live {
		m.draw(state)
	}
	return nil
}

// measure updates the rates since the last call, smoothed so that the bars do not flicker.
func (m *meter) measure() {
	now := time.Now()
	for i, name := range m.pods {
		n := m.load.count(name)
		rate := float64(n-m.seen[i]) / now.Sub(m.at).Seconds()
		if m.rates[i] += (rate - m.rates[i]) / 2; m.rates[i] < 0.5 {
			m.rates[i] = 0 // as it is displayed
		}
		m.seen[i] = n
	}
	m.at = now
}

// draw writes a line with the totals and one for each pod. On a terminal it overwrites the previous ones.
func (m *meter) draw(state string) {
	clear := ""
	if m.page.live {
		clear = "\x1b[K"
	}
	if m.drawn && m.page.live {
		fmt.Fprintf(m.page.out, "\x1b[%dA", len(m.pods)+1)
	}
	m.drawn = true
	m.page.line("%s: %s connections, %d failed%s", m.page.ink.bold(state), thousands(m.load.total()), m.load.failures(),
		clear)
	for i, name := range m.pods {
		m.page.line("%s  %s %4.0f/s  %6s total%s", name, m.bar(i), m.rates[i], thousands(m.seen[i]), clear)
	}
}

// below makes the meter draw below what has been printed since.
func (m *meter) below() { m.drawn = false }

// share is a pod's part of the current rate.
func (m *meter) share(pod int) float64 {
	sum := 1.0 // not 0: without load all bars are empty
	for _, r := range m.rates {
		sum += r
	}
	return m.rates[pod] / sum
}

// bar is the bar of a pod, proportional to its share of the current rate.
func (m *meter) bar(pod int) string {
	const longest = 48
	n := int(m.share(pod)*longest + 0.5)
	name := m.pods[pod]
	return m.page.ink.pod(name, strings.Repeat("█", n)) + m.page.ink.dim(strings.Repeat("·", longest-n))
}

// thousands writes 12345 as 12,345.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

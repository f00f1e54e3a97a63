package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/proxy/adminsocket"
)

// page is one view. Its methods are called on the goroutine of the screen, but for load.
type page interface {
	tview.Primitive
	// name is the page's title in the line of pages.
	name() string
	// load sends the page's request to the daemon. It is called on a goroutine of its own, once at a time; show puts
	// the answer on the screen.
	load(ctx context.Context) (show func(), err error)
	// key takes a key that the screen has no use for; nil if it did something.
	key(event *tcell.EventKey) *tcell.EventKey
	// hints are its keys, for the last line.
	hints() string
}

// filtered is a page whose rows can be filtered.
type filtered interface {
	filter() string
	setFilter(text string)
}

// screen is all that is seen: a line of the daemon, a line of pages, the page, and a line of keys, of a prompt or of
// what happened.
type screen struct {
	app      *tview.Application
	client   *adminsocket.Client
	interval time.Duration
	colors   colors

	about, trail, foot *tview.TextView
	body               *tview.Pages
	layout             *tview.Flex
	promptKeys         func(*tcell.EventKey) // a prompt is open, and takes the keys
	notice             string                // in place of the keys, until the next one
	info               adminsocket.Info
	unreachable        error // why the daemon does not answer
	since              time.Time

	mu        sync.Mutex
	stack     []page             // guarded by mu; the last is shown
	paused    bool               // guarded by mu: nothing is loaded
	interrupt context.CancelFunc // guarded by mu: ends the load that is under way
	wake      chan struct{}
}

func newScreen(client *adminsocket.Client, interval time.Duration, c colors) *screen {
	tview.Styles = c.theme()
	line := func() *tview.TextView { return tview.NewTextView().SetDynamicColors(true).SetWrap(false) }
	s := &screen{
		app: tview.NewApplication(), client: client, interval: interval, colors: c,
		about: line(), trail: line(), foot: line(), body: tview.NewPages(), layout: tview.NewFlex(),
		wake: make(chan struct{}, 1), interrupt: func() {},
	}
	s.layout.SetDirection(tview.FlexRow).
		AddItem(s.about, 1, 0, false).AddItem(s.trail, 1, 0, false).
		AddItem(s.body, 0, 1, true).AddItem(s.foot, 1, 0, false)
	s.app.SetRoot(s.layout, true).SetInputCapture(s.key)
	s.begin(newServices(s))
	return s
}

// begin shows a page instead of all others.
func (s *screen) begin(p page) {
	s.mu.Lock()
	s.stack = []page{p}
	s.mu.Unlock()
	s.shown()
}

// enter shows a page above the present one.
func (s *screen) enter(p page) {
	s.mu.Lock()
	s.stack = append(s.stack, p)
	s.mu.Unlock()
	s.shown()
}

// back shows the page below. The first stays.
func (s *screen) back() {
	s.mu.Lock()
	if len(s.stack) > 1 {
		s.stack = s.stack[:len(s.stack)-1]
	}
	s.mu.Unlock()
	s.shown()
}

// shown puts the last page on the screen.
func (s *screen) shown() {
	p := s.page()
	s.body.AddAndSwitchToPage("page", p, true)
	s.app.SetFocus(p)
	s.interruptLoad()
	s.refresh()
	s.draw()
}

func (s *screen) page() page {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stack[len(s.stack)-1]
}

// refresh loads the page now.
func (s *screen) refresh() {
	select {
	case s.wake <- struct{}{}:
	default: // it is about to be
	}
}

// loadTime bounds one load: what hangs is tried again.
const loadTime = 5 * time.Second

// restShare is how many times as long as a load took the daemon has its peace after it.
const restShare = 4

// follow loads the page that is shown, again and again, until ctx ends.
func (s *screen) follow(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		if p, loading, done := s.next(ctx); p != nil {
			info, show, err := s.load(loading, p)
			done()
			if !errors.Is(err, context.Canceled) {
				s.app.QueueUpdateDraw(func() { s.loaded(p, info, show, err) })
			}
		}
		rest := time.NewTimer(max(s.interval, restShare*time.Since(began)))
		select {
		case <-ctx.Done():
		case <-rest.C:
		case <-s.wake:
		}
		rest.Stop()
	}
}

// next returns the page to load, nil while nothing is loaded.
func (s *screen) next(ctx context.Context) (p page, loading context.Context, done context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		return nil, nil, nil
	}
	loading, done = context.WithTimeout(ctx, loadTime)
	s.interrupt = done
	return s.stack[len(s.stack)-1], loading, done
}

// interruptLoad ends a load whose page is no longer shown.
func (s *screen) interruptLoad() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt()
}

func (s *screen) load(ctx context.Context, p page) (info adminsocket.Info, show func(), err error) {
	if info, err = s.client.Info(ctx); err != nil {
		return info, nil, err
	}
	show, err = p.load(ctx)
	return info, show, err
}

// loaded shows what was loaded.
func (s *screen) loaded(p page, info adminsocket.Info, show func(), err error) {
	switch {
	case p != s.page() || s.isPaused():
		return
	case err != nil:
		if s.unreachable == nil {
			s.since = time.Now()
		}
		s.unreachable = err
	default:
		s.info, s.unreachable = info, nil
		show()
	}
	s.draw()
}

// pause stops the looks at the daemon, or goes on.
func (s *screen) pause() {
	s.mu.Lock()
	s.paused = !s.paused
	s.mu.Unlock()
	s.refresh()
	s.draw()
}

func (s *screen) isPaused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused
}

// draw writes the lines around the page.
func (s *screen) draw() {
	s.about.SetText(s.aboutText())
	var names []string
	s.mu.Lock()
	for _, p := range s.stack {
		names = append(names, p.name())
	}
	s.mu.Unlock()
	text := " " + strings.Join(names, " > ")
	if f, ok := s.page().(filtered); ok && f.filter() != "" {
		text += " /" + f.filter()
	}
	s.trail.SetText(tview.Escape(text))
	switch {
	case s.promptKeys != nil:
	case s.notice != "":
		s.foot.SetText(s.notice)
	default:
		keys := " ? help  q quit  " + s.page().hints() + "  1 Services  2 connections  3 records  p pause"
		s.foot.SetText(tview.Escape(keys))
	}
}

// aboutText is the first line.
func (s *screen) aboutText() string {
	i := &s.info
	switch {
	case s.unreachable != nil:
		return s.colors.tag(bad, fmt.Sprintf(" for %s: %s", inspect.Age(time.Now(), s.since), s.unreachable))
	case i.PID == 0:
		return " asking portald"
	case s.isPaused():
		return s.colors.tag(warn, " PAUSED: p goes on")
	}
	text := fmt.Sprintf(" portald %s on %s, mode %s, rules by %s, up %s", i.Version, i.Node, i.Mode, i.Writer,
		inspect.Age(time.Now(), i.Started))
	if !i.Ready {
		return tview.Escape(inspect.Text(text)) + s.colors.tag(bad, ", not ready: see /healthz")
	}
	return tview.Escape(inspect.Text(text))
}

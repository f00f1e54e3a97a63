package top

import (
	"context"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/portald/portald/cmd/portald/inspect"
)

// key takes a key before the page does.
func (s *screen) key(event *tcell.EventKey) *tcell.EventKey {
	if event.Key() == tcell.KeyCtrlC {
		s.app.Stop()
		return nil
	}
	if s.notice = ""; s.promptKeys != nil {
		s.promptKeys(event)
		return nil
	}
	if event.Key() == tcell.KeyEscape {
		s.escape()
		return nil
	}
	if event.Key() == tcell.KeyRune && s.common(event.Rune()) {
		return nil
	}
	defer s.draw()
	return s.page().key(event)
}

// common does what a key does on every page.
func (s *screen) common(key rune) bool {
	switch key {
	case 'q':
		s.app.Stop()
	case 'p':
		s.pause()
	case '?':
		s.enter(newHelp())
	case '/':
		s.askFilter()
	case '1':
		s.begin(newServices(s))
	case '2':
		s.begin(newConnections(s, scope{}))
	case '3':
		s.begin(newRecords(s, ""))
	default:
		return false
	}
	return true
}

// escape drops the filter, or goes back.
func (s *screen) escape() {
	if f, ok := s.page().(filtered); ok && f.filter() != "" {
		f.setFilter("")
		s.draw()
		return
	}
	s.back()
}

// askFilter has the user type a filter, which takes effect at once.
func (s *screen) askFilter() {
	f, ok := s.page().(filtered)
	if !ok {
		return
	}
	text := []rune(f.filter())
	s.foot.SetText(" Type a filter, then Enter; Esc drops it")
	s.promptKeys = func(event *tcell.EventKey) {
		switch event.Key() {
		case tcell.KeyEnter:
			s.promptKeys = nil
		case tcell.KeyEscape:
			s.promptKeys, text = nil, nil
		case tcell.KeyBackspace, tcell.KeyBackspace2:
			text = text[:max(0, len(text)-1)]
		case tcell.KeyRune:
			text = append(text, event.Rune())
		}
		f.setFilter(string(text))
		s.draw()
	}
}

// confirm asks before it does something that cannot be undone. do says what became of it.
func (s *screen) confirm(prompt string, do func(ctx context.Context) (string, error)) {
	s.foot.SetText(s.colors.tag(warn, " "+prompt+" y/n"))
	s.promptKeys = func(event *tcell.EventKey) {
		s.promptKeys = nil
		s.draw()
		if event.Rune() == 'y' {
			go s.change(do)
		}
	}
}

// changeTime bounds a request that changes something.
const changeTime = 10 * time.Second

func (s *screen) change(do func(ctx context.Context) (string, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	said, err := do(ctx)
	s.app.QueueUpdateDraw(func() {
		s.notice = " " + tview.Escape(inspect.Text(said))
		if err != nil {
			s.notice = s.colors.tag(bad, " "+err.Error())
		}
		s.refresh()
		s.draw()
	})
}

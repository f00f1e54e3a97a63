package top

import (
	"context"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/proxy/adminsocket"
)

// text is a page that is read.
type text struct {
	*tview.TextView
	title, keys string
	fetch       func(ctx context.Context) (string, error) // nil: the text stays
	actions     map[rune]func()
}

func newText(t *text) *text {
	t.TextView = tview.NewTextView().SetWrap(true)
	return t
}

func (t *text) name() string  { return t.title }
func (t *text) hints() string { return t.keys }

func (t *text) load(ctx context.Context) (func(), error) {
	if t.fetch == nil {
		return func() {}, nil
	}
	now, err := t.fetch(ctx)
	return func() { t.SetText(now) }, err
}

func (t *text) key(event *tcell.EventKey) *tcell.EventKey {
	if act := t.actions[event.Rune()]; event.Key() == tcell.KeyRune && act != nil {
		act()
		return nil
	}
	return event
}

// newConnection is the page of one connection. Once it has ended, its last state stays.
func newConnection(s *screen, of *adminsocket.Connection) *text {
	last := *of
	t := newText(&text{
		title: "connection " + inspect.ID(of.ID), keys: "c cut", actions: map[rune]func(){'c': func() { s.cut(of) }},
	})
	t.fetch = func(ctx context.Context) (string, error) {
		q := scope{service: of.Service, protocol: of.Protocol}.query()
		if q.TCP = true; of.ID != 0 {
			q.IDs = []uint64{of.ID}
		}
		all, err := s.client.Connections(ctx, q)
		if err != nil {
			return "", err
		}
		for i := range all {
			if connKey(&all[i]) == connKey(of) {
				last = all[i]
				return details(&last), nil
			}
		}
		return details(&last) + "\n It has ended. portald tail --last 1000 has its record.\n", nil
	}
	return t
}

const help = `
 Arrows, PgUp, PgDn, Home, End   move
 Enter                           into a Service, an endpoint, a connection
 Esc                             drop the filter, go back
 /                               filter: rows with this text in any column; an address or CIDR also finds
                                 connections beyond the first 500
 < >                             sort by the column before, after (s: after)
 r                               reverse the order
 1  2  3                         Services, all connections, records as they come
 o                               the connections of a Service
 l                               the records of a Service
 c                               cut a connection
 d  u                            drain an endpoint: no new connections from this node; undrain it
 p                               pause, go on
 q, Ctrl-C                       quit

 Rates are those since the last look.
`

func newHelp() *text {
	t := newText(&text{title: "help", keys: "Esc back"})
	t.SetText(help)
	return t
}

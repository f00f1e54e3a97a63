package top

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// list is a page of rows: a table that is sorted, filtered and fetched again and again.
type list[T any] struct {
	*tview.Table
	screen  *screen
	title   string
	keys    string
	columns []column[T]
	id      func(*T) string // tells the rows apart, from one answer to the next
	counts  func(*T) []uint64
	fetch   func(ctx context.Context, w listRequest) ([]T, error)
	matches func(of *T, filter string) bool // whatever its cells are; nil: never
	open    func(*T)                        // by Enter; nil: nothing
	actions map[rune]func(*T)

	last     samples
	rows     []row[T] // as they came
	shown    []*row[T]
	sorted   int // a column
	reversed bool
	text     string // the filter
	moved    bool   // by a key: the row that was chosen stays chosen wherever it goes
	request  atomic.Pointer[listRequest]
}

// listRequest has the sort order and filter for the next load.
type listRequest struct{ sorted, filter string }

// row is a row with the rates of its counts, a second; negative: not known yet.
type row[T any] struct {
	now   T
	rates []float64
}

// column is one column. Numbers are at the right, and sorted from the most down; texts the other way round.
type column[T any] struct {
	name  string
	text  func(*row[T]) string
	value func(*row[T]) float64 // nil: it is sorted as text
	paint func(*row[T]) meaning // nil: plain
}

// newList makes the table of a list whose fields are set.
func newList[T any](l *list[T]) *list[T] {
	l.Table = tview.NewTable().SetFixed(1, 0).SetSelectable(true, false)
	l.Table.SetSelectedStyle(tcell.StyleDefault.Reverse(true))
	l.Table.SetSelectedFunc(func(int, int) { l.with(l.open) })
	l.fill()
	return l
}

func (l *list[T]) name() string          { return l.title }
func (l *list[T]) hints() string         { return l.keys + "  / filter  < > sort  r reverse" }
func (l *list[T]) filter() string        { return l.text }
func (l *list[T]) setFilter(text string) { l.text = strings.ToLower(text); l.changed() }

// load implements page.
func (l *list[T]) load(ctx context.Context) (func(), error) {
	all, err := l.fetch(ctx, *l.request.Load())
	if err != nil {
		return nil, err
	}
	at := time.Now()
	return func() {
		l.rows = l.rated(all, at)
		l.fill()
	}, nil
}

func (l *list[T]) rated(all []T, at time.Time) []row[T] {
	out, next := make([]row[T], len(all)), make(samples, len(all))
	for i := range all {
		id, counts := l.id(&all[i]), l.counts(&all[i])
		out[i] = row[T]{all[i], l.last[id].until(counts, at)}
		next[id] = sample{at, counts}
	}
	l.last = next
	return out
}

// key implements page.
func (l *list[T]) key(event *tcell.EventKey) *tcell.EventKey {
	switch event.Rune() {
	case '<':
		l.sort(l.sorted-1, false)
	case '>', 's':
		l.sort(l.sorted+1, false)
	case 'r':
		l.sort(l.sorted, !l.reversed)
	default:
		l.moved = l.moved || event.Key() != tcell.KeyRune
		if act := l.actions[event.Rune()]; event.Key() == tcell.KeyRune && act != nil {
			l.with(act)
			return nil
		}
		return event
	}
	return nil
}

// with does something with the row that is chosen.
func (l *list[T]) with(act func(*T)) {
	at, _ := l.GetSelection()
	if act != nil && at >= 1 && at <= len(l.shown) {
		act(&l.shown[at-1].now)
	}
}

func (l *list[T]) sort(column int, reversed bool) {
	l.sorted, l.reversed = (column+len(l.columns))%len(l.columns), reversed
	l.changed()
}

// changed draws the rows in another order or with another filter, and fetches them again: the daemon may return others.
func (l *list[T]) changed() {
	l.fill()
	l.screen.refresh()
}

// fill writes the table again.
func (l *list[T]) fill() {
	l.request.Store(&listRequest{l.columns[l.sorted].name, l.text})
	chosen, at := l.chosen()
	l.shown = l.choose()
	l.Table.Clear()
	for i := range l.columns {
		l.SetCell(0, i, l.header(i))
	}
	for i, r := range l.shown {
		for j := range l.columns {
			l.SetCell(i+1, j, l.cell(&l.columns[j], r))
		}
		if l.moved && l.id(&r.now) == chosen {
			at = i + 1
		}
	}
	l.Select(max(1, min(at, len(l.shown))), 0)
}

// chosen is the row that is chosen, and where it is.
func (l *list[T]) chosen() (id string, at int) {
	at, _ = l.GetSelection()
	if at >= 1 && at <= len(l.shown) {
		id = l.id(&l.shown[at-1].now)
	}
	return id, at
}

// choose returns the rows that pass the filter, in their order.
func (l *list[T]) choose() (out []*row[T]) {
	for i := range l.rows {
		if l.passes(&l.rows[i]) {
			out = append(out, &l.rows[i])
		}
	}
	by := l.columns[l.sorted]
	slices.SortStableFunc(out, func(a, b *row[T]) int {
		order := 0
		if by.value != nil {
			order = cmp.Compare(by.value(b), by.value(a))
		} else {
			order = cmp.Compare(by.text(a), by.text(b))
		}
		if l.reversed {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(l.id(&a.now), l.id(&b.now)))
	})
	return out
}

// passes tells whether a cell of the row contains the filter, or the row matches it otherwise.
func (l *list[T]) passes(r *row[T]) bool {
	inCell := func(c column[T]) bool { return strings.Contains(strings.ToLower(c.text(r)), l.text) }
	return l.text == "" || slices.ContainsFunc(l.columns, inCell) || l.matches != nil && l.matches(&r.now, l.text)
}

func (l *list[T]) header(i int) *tview.TableCell {
	c := &l.columns[i]
	name := c.name
	if i == l.sorted {
		name += map[bool]string{false: "↓", true: "↑"}[l.reversed == (c.value != nil)]
	}
	return tview.NewTableCell(name).SetSelectable(false).SetAttributes(tcell.AttrBold).SetAlign(c.align())
}

func (l *list[T]) cell(c *column[T], r *row[T]) *tview.TableCell {
	cell := tview.NewTableCell(tview.Escape(c.text(r))).SetAlign(c.align())
	if c.paint != nil {
		cell.SetTextColor(l.screen.colors.color(c.paint(r)))
	}
	return cell
}

func (c *column[T]) align() int {
	if c.value != nil {
		return tview.AlignRight
	}
	return tview.AlignLeft
}

package inspect

import (
	"cmp"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// column is a column of a table whose rows are T.
type column[T any] struct {
	name  string // the header
	wide  bool   // only with -o wide
	min   int    // least width, for tables that are printed while rows come
	cell  func(b []byte, row *T) []byte
	paint func(row *T) paint // nil: plain
}

// table aligns rows as kubectl does: three spaces between columns, and none behind the last. Rows are kept, as text,
// until flush; one that is flushed after each row widens its columns as rows need it.
type table[T any] struct {
	columns []column[T]
	color   bool
	place   func(row *T) place // nil: rows are printed in the order in which they are added

	mu     sync.Mutex // for addPage
	pages  []*page
	waits  int // rows
	places []place
	widths []int
}

// page holds rowsOfPage rows, or fewer: text that grew in one piece would be copied again and again.
type page struct {
	text  []byte
	cells []cell // of its rows, one row after the other
}

const rowsOfPage = 1024

// cell is one cell of the rows that wait. There may be a million.
type cell struct {
	end   uint32 // in the text of the page
	width uint16 // in characters
	paint paint
}

// place is where a row belongs: the larger rank first, then the smaller id.
type place struct {
	rank float64
	id   uint64
	row  int // its page, times rowsOfPage, and its number in there
}

func (p place) compare(o place) int {
	if by := cmp.Compare(o.rank, p.rank); by != 0 {
		return by
	}
	return cmp.Compare(p.id, o.id)
}

const gap = 3

func newTable[T any](columns []column[T], wide bool) *table[T] {
	t := &table[T]{}
	for _, c := range columns {
		if wide || !c.wide {
			t.columns = append(t.columns, c)
			t.widths = append(t.widths, c.min)
		}
	}
	return t
}

func (t *table[T]) add(row *T) {
	if t.place != nil {
		t.places = append(t.places, t.placeOf(row, t.waits))
	}
	n := t.waits / rowsOfPage
	if n == len(t.pages) {
		t.pages = append(t.pages, t.newPage())
	}
	t.write(t.pages[n], t.widths, row)
	t.waits++
}

// addPage adds rowsOfPage rows at most to a table that has places. Several goroutines may call it at a time, and none
// of them add.
func (t *table[T]) addPage(rows []T) {
	t.mu.Lock()
	g := t.newPage()
	t.mu.Unlock()
	widths, places := make([]int, len(t.columns)), make([]place, len(rows))
	for i := range rows {
		t.write(g, widths, &rows[i])
		places[i] = t.placeOf(&rows[i], i)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range widths {
		t.widths[i] = max(t.widths[i], w)
	}
	for i := range places {
		places[i].row += len(t.pages) * rowsOfPage
	}
	t.pages, t.places, t.waits = append(t.pages, g), append(t.places, places...), t.waits+len(rows)
}

func (t *table[T]) placeOf(row *T, at int) place {
	p := t.place(row)
	p.row = at
	return p
}

// write adds the cells of a row to a page, and widens columns as it needs.
func (t *table[T]) write(g *page, widths []int, row *T) {
	for i := range t.columns {
		c := &t.columns[i]
		g.text = c.cell(g.text, row)
		p := plain
		if t.color && c.paint != nil {
			p = c.paint(row)
		}
		widths[i] = max(widths[i], g.end(p))
	}
}

// rows is how many wait.
func (t *table[T]) rows() int { return t.waits }

// newPage returns a page that is most likely as large as the one before.
func (t *table[T]) newPage() *page {
	if len(t.pages) == 0 {
		return &page{}
	}
	before := t.pages[len(t.pages)-1]
	return &page{make([]byte, 0, len(before.text)+len(before.text)/8), make([]cell, 0, len(before.cells))}
}

// end completes a cell, and returns its width.
func (g *page) end(p paint) int {
	width := utf8.RuneCount(g.text[g.begin(len(g.cells)):])
	g.cells = append(g.cells, cell{uint32(len(g.text)), uint16(min(width, math.MaxUint16)), p})
	return width
}

// begin is where a cell begins in the text.
func (g *page) begin(cell int) uint32 {
	if cell == 0 {
		return 0
	}
	return g.cells[cell-1].end
}

// flush prints the rows that wait, in few writes, below a line of headers if headers is set.
func (t *table[T]) flush(out io.Writer, headers bool) error {
	if headers {
		if _, err := out.Write(t.appendHeaders(nil)); err != nil {
			return err
		}
	}
	slices.SortFunc(t.places, place.compare)
	var next atomic.Int64
	chunks := make([]chan []byte, (t.waits+rowsOfPage-1)/rowsOfPage)
	for i := range chunks {
		chunks[i] = make(chan []byte, 1)
	}
	for range min(runtime.GOMAXPROCS(0), len(chunks)) {
		go func() {
			for i := next.Add(1) - 1; i < int64(len(chunks)); i = next.Add(1) - 1 {
				chunks[i] <- t.lines(int(i)*rowsOfPage, min(int(i+1)*rowsOfPage, t.waits))
			}
		}()
	}
	for _, lines := range chunks {
		if _, err := out.Write(<-lines); err != nil {
			next.Store(int64(len(chunks)))
			return err
		}
	}
	t.empty()
	return nil
}

// lines are the rows from one to before another, of those that wait.
func (t *table[T]) lines(from, to int) []byte {
	width := len(t.columns) * gap
	for _, w := range t.widths {
		width += w
	}
	b := make([]byte, 0, (to-from)*width)
	for i := from; i < to; i++ {
		row := i
		if t.place != nil {
			row = t.places[i].row
		}
		b = t.appendRow(b, row)
	}
	return b
}

// empty forgets the rows, and keeps the memory of a page.
func (t *table[T]) empty() {
	t.waits, t.places = 0, t.places[:0]
	if len(t.pages) > 0 {
		first := t.pages[0]
		first.text, first.cells = first.text[:0], first.cells[:0]
		t.pages = t.pages[:1]
	}
}

func (t *table[T]) appendHeaders(b []byte) []byte {
	for i, c := range t.columns {
		t.widths[i] = max(t.widths[i], len(c.name))
		b = t.appendGap(append(b, c.name...), i, len(c.name))
	}
	return b
}

func (t *table[T]) appendRow(b []byte, row int) []byte {
	g, first := t.pages[row/rowsOfPage], row%rowsOfPage*len(t.columns)
	for i := range t.columns {
		c := g.cells[first+i]
		b = t.appendGap(c.paint.append(b, g.text[g.begin(first+i):c.end]), i, int(c.width))
	}
	return b
}

// appendGap writes what follows a cell of column i.
func (t *table[T]) appendGap(b []byte, i, width int) []byte {
	if i == len(t.columns)-1 {
		return append(b, '\n')
	}
	for range t.widths[i] + gap - width {
		b = append(b, ' ')
	}
	return b
}

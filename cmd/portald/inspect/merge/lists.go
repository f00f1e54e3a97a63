package merge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/portald/portald/proxy/adminsocket"
)

// named appends the JSON of an object with the node that it is of.
func named(b, object []byte, node string) []byte {
	b = append(b, bytes.TrimSuffix(object, []byte("}"))...)
	b = append(b, `,"portald_node":`...)
	return append(appendText(b, node), '}')
}

// appendText appends the JSON of a name.
func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a JSON
	}
	return append(b, text...)
}

// list writes a JSON list, a row a line, as daemons do. Several goroutines may add.
type list struct {
	mu   sync.Mutex
	out  *bufio.Writer
	rows int
}

func (l *list) add(row []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := ",\n"
	if l.rows == 0 {
		before = "[\n"
	}
	l.rows++
	l.out.WriteString(before) // the next write fails too
	_, err := l.out.Write(row)
	return err
}

func (l *list) end() error {
	end := "\n]\n"
	if l.rows == 0 {
		end = "[]\n"
	}
	l.out.WriteString(end)
	return l.out.Flush()
}

// connections writes those of all nodes: as they come, or in the order asked for.
func (h *handler) connections(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit")) // nodes refuse what is no number
	out := &list{out: bufio.NewWriterSize(w, 64<<10)}
	if order := query.Get("sort"); order != "" {
		rows, err := h.ranked(r, adminsocket.Order(order))
		if err != nil {
			return err
		}
		if limit > 0 {
			rows = rows[:min(limit, len(rows))]
		}
		for _, row := range rows {
			if err := out.add(row.text); err != nil {
				return err
			}
		}
		return out.end()
	}
	err := h.each(r.Context(), func(ctx context.Context, _ int, n Node, dog watchdog) error {
		var row []byte
		return n.Client.EachRow(ctx, r.URL.Path, query, func(text []byte) error {
			dog.alive()
			row = named(row[:0], text, n.Name)
			return out.add(row)
		})
	})
	if err != nil {
		return err
	}
	return out.end()
}

// rankedRow is a connection that waits for its place.
type rankedRow struct {
	rank float64
	node int
	text []byte
}

// ranked returns the connections of all nodes, the largest rank first.
func (h *handler) ranked(r *http.Request, by adminsocket.Order) (rows []rankedRow, err error) {
	var mu sync.Mutex
	err = h.each(r.Context(), func(ctx context.Context, at int, n Node, dog watchdog) error {
		return n.Client.EachRow(ctx, r.URL.Path, r.URL.Query(), func(text []byte) error {
			dog.alive()
			var c adminsocket.Connection
			if err := json.Unmarshal(text, &c); err != nil {
				return err
			}
			row := rankedRow{by.Rank(&c), at, named(nil, text, n.Name)}
			mu.Lock()
			defer mu.Unlock()
			rows = append(rows, row)
			return nil
		})
	})
	slices.SortStableFunc(rows, func(a, b rankedRow) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.node, b.node))
	})
	return rows, err
}

func writeJSON(w http.ResponseWriter, value any) error { return json.NewEncoder(w).Encode(value) }

// post sends the body of a request to each node.
func post[T any](h *handler, r *http.Request, body any) ([]said[T], error) {
	return gather(r.Context(), h, func(ctx context.Context, c *adminsocket.Client) (value T, err error) {
		return value, c.Post(ctx, r.URL.Path, body, &value)
	})
}

// cut cuts on the node where the connections are: ids of different nodes may be equal.
func (h *handler) cut(w http.ResponseWriter, r *http.Request) error {
	var request adminsocket.Cut
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return err
	}
	at := slices.IndexFunc(h.nodes, func(n Node) bool { return n.Name == request.PortaldNode })
	if at < 0 && len(h.nodes) == 1 {
		at = 0
	}
	if at < 0 {
		return errWhichNode
	}
	result, err := h.nodes[at].Client.Cut(r.Context(), request.IDs...)
	if err != nil {
		return err
	}
	return writeJSON(w, result)
}

// drain drains, or undrains, on all nodes.
func (h *handler) drain(w http.ResponseWriter, r *http.Request) error {
	var request adminsocket.Drain
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return err
	}
	answers, err := post[adminsocket.DrainResult](h, r, request)
	if err != nil {
		return err
	}
	all := adminsocket.DrainResult{Done: []adminsocket.DrainedEndpoint{}, Refused: []adminsocket.DrainedEndpoint{}}
	for _, a := range answers {
		for _, e := range a.value.Done {
			e.PortaldNode = a.node
			all.Done = append(all.Done, e)
		}
		for _, e := range a.value.Refused {
			e.PortaldNode = a.node
			all.Refused = append(all.Refused, e)
		}
	}
	return writeJSON(w, all)
}

func (h *handler) logLevel(w http.ResponseWriter, r *http.Request) error {
	var request adminsocket.Loglevel
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return err
	}
	if _, err := post[adminsocket.Loglevel](h, r, request); err != nil {
		return err
	}
	return writeJSON(w, request)
}

// Package merge answers the admin API for several daemons as if they were one, so that a command that looks into one
// node looks into a cluster too:
//
//	dial := merge.Dialer(nodes, merge.Options{Failed: func(node string, err error) { ... }})
//	client := adminsocket.NewClientOver("the cluster", dial)
//	all, err := client.Connections(ctx, adminsocket.ConnectionQuery{}) // each with its PortaldNode
//
// Lists have the rows of all nodes, counts of the same Service or endpoint are added up, records and changes come in
// the order of time. A node that does not answer in time is reported and left out, and holds nothing up. The package
// does not know how nodes are found and reached.
package merge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

// Node is a daemon that is asked.
type Node struct {
	Name   string // as rows name it
	Client *adminsocket.Client
}

// Options say how nodes are asked. The zero value is usable.
type Options struct {
	// Wait bounds how long a node may take for its answer, and between two parts of it; 0: DefaultWait.
	Wait time.Duration
	// Failed is called when a node does not answer, or no longer, as often as it is asked. Several goroutines may call it
	// at a time. nil: nobody is told, unless no node answers.
	Failed func(node string, err error)
	// Resumed is called when a node that had failed is followed again. nil: nobody is told.
	Resumed func(Resumption)
	// List lists the nodes again, so that those that join later are asked too. nil: they stay the same.
	List func(context.Context) ([]Node, error)
	// Relist is the time between two lists; 0: DefaultRelist.
	Relist time.Duration
}

// Resumption is a stream of a node that is taken up again.
type Resumption struct {
	Node string
	// From and To are times of the node between which records have ended that may be missing. Zero: none is missing.
	From, To time.Time
}

// DefaultWait is more than a daemon takes for a list of 100,000 connections.
const DefaultWait = 5 * time.Second

// DefaultRelist is soon enough for nodes that are added to a cluster, which takes a minute by itself.
const DefaultRelist = 30 * time.Second

// Dialer returns a function that connects to the API of all nodes, of which there is one at least. Requests that are of
// one node alone, such as an explanation, are refused there: ask that node's own client.
func Dialer(nodes []Node, o Options) func(context.Context) (net.Conn, error) {
	o.Wait, o.Relist = cmp.Or(o.Wait, DefaultWait), cmp.Or(o.Relist, DefaultRelist)
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	if o.Resumed == nil {
		o.Resumed = func(Resumption) {}
	}
	return adminsocket.InMemory(newHandler(nodes, o))
}

// handler answers one request.
type handler struct {
	nodes []Node // when it came
	known *nodeList
	Options
}

func newHandler(nodes []Node, o Options) http.Handler {
	known := &nodeList{Options: o, nodes: nodes, listed: time.Now()}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(*handler, http.ResponseWriter, *http.Request) error{
		"GET /v1/info":        (*handler).info,
		"GET /v1/connections": (*handler).connections,
		"GET /v1/records":     (*handler).stream,
		"GET /v1/changes":     (*handler).stream,
		"GET /v1/services":    (*handler).services,
		"GET /v1/endpoints":   (*handler).endpoints,
		"POST /v1/payload":    (*handler).stream,
		"POST /v1/cut":        (*handler).cut,
		"POST /v1/drain":      (*handler).drain,
		"POST /v1/undrain":    (*handler).drain,
		"POST /v1/loglevel":   (*handler).logLevel,
		"/":                   (*handler).single,
	} {
		mux.Handle(pattern, answer(func(w http.ResponseWriter, r *http.Request) error {
			return serve(&handler{known.get(), known, o}, w, r)
		}))
	}
	return mux
}

// answer writes the error of a handler that has written nothing; else it closes the connection, so that a part is not
// taken for the whole.
func answer(serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(adminsocket.HeaderVersion, adminsocket.Version)
		out := &started{ResponseWriter: w}
		err := serve(out, r)
		switch {
		case err == nil:
			return
		case out.is:
			panic(http.ErrAbortHandler)
		case errors.Is(err, adminsocket.ErrNotFound):
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
		_ = json.NewEncoder(w).Encode(adminsocket.Failure{Error: err.Error()}) // it fails only for a client that left
	})
}

// started knows whether anything was written.
type started struct {
	http.ResponseWriter
	is bool
}

func (s *started) Write(p []byte) (int, error) {
	s.is = true
	return s.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (s *started) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// single refuses what one node alone can answer.
func (h *handler) single(_ http.ResponseWriter, r *http.Request) error {
	return fmt.Errorf("%s is of one node: name it by --on-node", r.URL.Path)
}

// errSlow ends requests to nodes that take too long.
var errSlow = errors.New("no answer in time")

// asker asks a node, and tells the watchdog whenever the node says something.
type asker func(ctx context.Context, at int, n Node, w watchdog) error

// each asks all nodes at the same time. Nodes that fail are reported, unless all do: the error is that of the first one
// then.
func (h *handler) each(ctx context.Context, ask asker) error {
	errs := h.errors(ctx, ask)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !slices.Contains(errs, nil) {
		return fmt.Errorf("%s: %w", h.nodes[0].Name, errs[0])
	}
	for at, err := range errs {
		if err != nil && !errors.Is(err, adminsocket.ErrNotFound) {
			h.Failed(h.nodes[at].Name, err)
		}
	}
	return nil
}

// errors asks all nodes at the same time, and returns the error of each.
func (h *handler) errors(ctx context.Context, ask asker) []error {
	errs := make([]error, len(h.nodes))
	var all sync.WaitGroup
	for at, n := range h.nodes {
		all.Go(func() { errs[at] = h.one(ctx, at, n, ask) })
	}
	all.Wait()
	return errs
}

func (h *handler) one(ctx context.Context, at int, n Node, ask asker) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(h.Wait, func() { cancel(fmt.Errorf("%w: within %s", errSlow, h.Wait)) })
	defer late.Stop()
	err := ask(ctx, at, n, watchdog{late, h.Wait})
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return context.Cause(ctx)
	}
	return err
}

// watchdog ends a request when a node says nothing for too long.
type watchdog struct {
	late *time.Timer
	wait time.Duration
}

func (w watchdog) alive() { w.late.Reset(w.wait) }

// off lets the node be silent from now on.
func (w watchdog) off() { w.late.Stop() }

// gather returns what each node that answered said, in the order of nodes.
func gather[T any](
	ctx context.Context, h *handler, ask func(context.Context, *adminsocket.Client) (T, error),
) (all []said[T], err error) {
	answers := make([]*said[T], len(h.nodes))
	err = h.each(ctx, func(ctx context.Context, at int, n Node, _ watchdog) error {
		value, err := ask(ctx, n.Client)
		if err == nil {
			answers[at] = &said[T]{n.Name, value}
		}
		return err
	})
	for _, a := range answers {
		if a != nil {
			all = append(all, *a)
		}
	}
	return all, err
}

// said is what a node said.
type said[T any] struct {
	node  string
	value T
}

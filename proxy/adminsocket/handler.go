package adminsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/explain"
)

// Daemon is what the handler asks of the daemon. Several goroutines call it at once.
type Daemon struct {
	Info func() Info
	// Connections lists what is open in userspace mode. What it yields is overwritten by the next.
	Connections func(ctx context.Context) iter.Seq[*Connection]
	// Kernel lists what the kernel carries, in the same way; nil: nothing.
	Kernel func(ctx context.Context) iter.Seq[*Connection]
	// AddTCP sets what the kernel knows of the sockets of connections of userspace mode, where they are still open.
	AddTCP func(ctx context.Context, to []Connection)
	// Records are the last records, and those to come.
	Records *connlog.Stream
	// Services lists the service ports whose names are wanted, in the order of names.
	Services func(ctx context.Context, wanted func(name string) bool) iter.Seq[*Service]
	// Endpoints lists the endpoints of these.
	Endpoints func(ctx context.Context, wanted func(service string) bool) iter.Seq[*Endpoint]
	// Drain keeps new connections away from an endpoint, Undrain ends that. An error says why not, and what to do.
	Drain   func(e *Endpoint, force bool) error
	Undrain func(e *Endpoint) error
	// Cut ends a connection or session of userspace mode by force, soon. False: none is open by that id.
	Cut func(id uint64) bool
	// SetLogLevel sets the level of the daemon's own log. An error says which there are.
	SetLogLevel func(level string) error
	// Explain says what this node does for a Service, an address, a pod or a connection, for a client or for all. An error
	// says what may be asked.
	Explain func(ctx context.Context, what, from string) (*explain.Report, error)
}

// Handler answers the requests of the API.
type Handler struct {
	daemon Daemon
	views  []view
	all    *http.ServeMux // what changes something too
	look   *http.ServeMux

	followers followers
	lists     chan struct{} // each that is under way takes a place
	tcpLists  chan struct{} // and one here too, if its client is one of TCP
}

// view is a path that changes nothing.
type view struct {
	path, about string
	serve       func(w http.ResponseWriter, r *http.Request) error
}

// NewHandler returns a handler of all paths.
func NewHandler(d Daemon) *Handler {
	h := &Handler{daemon: d, all: http.NewServeMux(), look: http.NewServeMux(),
		lists: make(chan struct{}, maxLists), tcpLists: make(chan struct{}, maxLists/2)}
	h.views = []view{
		{"/v1/info", "the daemon itself", h.info},
		{"/v1/connections", "open connections and UDP sessions", h.inTurn(h.connections)},
		{"/v1/records", "the last records, and with follow=1 those to come", h.records},
		{"/v1/services", "the service ports of this node", h.inTurn(h.services)},
		{"/v1/endpoints", "their endpoints", h.inTurn(h.endpoints)},
	}
	for _, mux := range []*http.ServeMux{h.all, h.look} {
		for _, v := range h.views {
			mux.Handle("GET "+v.path, answering(v.serve))
		}
		mux.Handle("GET /v1/{$}", answering(h.index))
	}
	h.all.Handle("GET /v1/explain", answering(h.explain)) // for root alone: it runs commands
	h.all.Handle("POST /v1/cut", answering(h.cut))
	h.all.Handle("POST /v1/drain", answering(h.drain))
	h.all.Handle("POST /v1/undrain", answering(h.undrain))
	h.all.Handle("POST /v1/loglevel", answering(h.setLogLevel))
	return h
}

// ServeHTTP answers requests that may change something: it is for a socket that only root can open.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { versioned(h.all).ServeHTTP(w, r) }

// View answers the requests that change nothing, of clients on this host.
func (h *Handler) View() http.Handler { return versioned(loopbackOnly(h.look)) }

// versioned names the version in each answer.
func versioned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HeaderVersion, Version)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// answering has a function answer. Its error is the answer if nothing was written yet; else the connection is closed,
// so that the client does not take a part for the whole.
func answering(serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		out := &answer{ResponseWriter: w}
		err := serve(out, r)
		switch {
		case err == nil:
		case out.begun:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(statusOf(err))
			_ = writeJSON(w, Failure{err.Error()}) // it fails only for a client that left
		}
	})
}

// writeJSON answers with a value. Texts of others are in it, and it may be read without one of our commands.
func writeJSON(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(text), '\n'))
	return err
}

// answer knows whether anything of it was written.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// statusError is an error with the status to answer.
type statusError struct {
	error
	status int
}

func badRequest(format string, values ...any) error {
	return statusError{fmt.Errorf(format, values...), http.StatusBadRequest}
}

func notFound(format string, values ...any) error {
	return statusError{fmt.Errorf(format, values...), http.StatusNotFound}
}

func statusOf(err error) int {
	if status, ok := errors.AsType[statusError](err); ok {
		return status.status
	}
	return http.StatusInternalServerError
}

func (h *Handler) info(w http.ResponseWriter, r *http.Request) error {
	if err := noQuery(r); err != nil {
		return err
	}
	return writeJSON(w, h.daemon.Info())
}

// index lists the paths, for a person.
func (h *Handler) index(w http.ResponseWriter, _ *http.Request) error {
	paths := map[string]string{}
	for _, v := range h.views {
		paths[v.path] = v.about
	}
	return writeJSON(w, paths)
}

func (h *Handler) cut(w http.ResponseWriter, r *http.Request) error {
	var asked Cut
	if err := read(r, &asked); err != nil {
		return err
	}
	answer := CutAnswer{Cut: []uint64{}, Missing: []uint64{}}
	for _, id := range asked.IDs {
		if h.daemon.Cut(id) {
			answer.Cut = append(answer.Cut, id)
		} else {
			answer.Missing = append(answer.Missing, id)
		}
	}
	return writeJSON(w, answer)
}

func (h *Handler) setLogLevel(w http.ResponseWriter, r *http.Request) error {
	var asked Loglevel
	if err := read(r, &asked); err != nil {
		return err
	}
	if err := h.daemon.SetLogLevel(asked.Level); err != nil {
		return badRequest("level %q: %w", asked.Level, err)
	}
	return writeJSON(w, Loglevel{h.daemon.Info().LogLevel})
}

// maxBody bounds what a request may bring. The server bounds how long it may take to bring it.
const maxBody = 1 << 20

// read reads the JSON of a request.
func read(r *http.Request, into any) error {
	if err := noQuery(r); err != nil {
		return err
	}
	body := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	body.DisallowUnknownFields()
	if err := body.Decode(into); err != nil {
		return badRequest("read the request: %w", err)
	}
	if _, err := body.Token(); !errors.Is(err, io.EOF) {
		return badRequest("read the request: there is more than one JSON value")
	}
	return nil
}

// noQuery refuses a query where there is none: what it asks for would be ignored.
func noQuery(r *http.Request) error { return onlyKeys(r.URL.Query()) }

// onlyKeys refuses keys of a query that are not known.
func onlyKeys(query url.Values, known ...string) error {
	for key := range query {
		if !slices.Contains(known, key) {
			return badRequest("query: there is no key %q; known are %s", key, strings.Join(known, ", "))
		}
	}
	return nil
}

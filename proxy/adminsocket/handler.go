package adminsocket

import (
	"fmt"
	"net/http"

	"github.com/portald/portald/proxy/changes"
)

// Handler answers the requests of the API.
type Handler struct {
	daemon   Daemon
	views    []view
	all      *http.ServeMux // what changes something too
	readOnly *http.ServeMux

	followers followers
	readers   followers     // of files
	lists     chan struct{} // each that is under way takes a place
	tcpLists  chan struct{} // and one here too, if its client is one of TCP
	captures  captures
}

// view is a path that changes nothing.
type view struct {
	path, about string
	serve       func(w http.ResponseWriter, r *http.Request) error
	forRoot     func(w http.ResponseWriter, r *http.Request) error // in its place at the socket; nil: the same
}

// ServeHTTP answers requests that may change something: it is for a socket that only root can open.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { versioned(h.all).ServeHTTP(w, r) }

// View answers the requests that change nothing, of clients on this host.
func (h *Handler) View() http.Handler { return versioned(loopbackOnly(h.readOnly)) }

func (h *Handler) info(w http.ResponseWriter, r *http.Request) error {
	if err := noQuery(r); err != nil {
		return err
	}
	return writeJSON(w, h.daemon.Info())
}

func (h *Handler) configuration(w http.ResponseWriter, r *http.Request) error {
	if err := noQuery(r); err != nil {
		return err
	}
	return writeJSON(w, h.daemon.Configuration())
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
	var request Cut
	if err := read(r, &request); err != nil {
		return err
	}
	answer := CutResult{Cut: []uint64{}, Missing: []uint64{}}
	for _, id := range request.IDs {
		if h.daemon.Cut(id) {
			answer.Cut = append(answer.Cut, id)
		} else {
			answer.Missing = append(answer.Missing, id)
		}
	}
	if n := len(answer.Cut); n > 0 {
		h.daemon.Changes.Add(changes.Change{Kind: changes.ConnectionsCut,
			What: fmt.Sprintf("connections or UDP sessions cut by portald cut: %d", n)})
	}
	return writeJSON(w, answer)
}

func (h *Handler) setLogLevel(w http.ResponseWriter, r *http.Request) error {
	var request Loglevel
	if err := read(r, &request); err != nil {
		return err
	}
	if err := h.daemon.SetLogLevel(request.Level); err != nil {
		return badRequest("level %q: %w", request.Level, err)
	}
	return writeJSON(w, Loglevel{h.daemon.Info().LogLevel})
}

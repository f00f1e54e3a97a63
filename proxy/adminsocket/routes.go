package adminsocket

import "net/http"

// NewHandler returns a handler of all paths.
func NewHandler(d Daemon) *Handler {
	h := &Handler{daemon: d, all: http.NewServeMux(), readOnly: http.NewServeMux(),
		lists: make(chan struct{}, maxLists), tcpLists: make(chan struct{}, maxLists/2)}
	h.views = []view{
		{"/v1/info", "the daemon itself", h.info},
		{"/v1/connections", "open connections and UDP sessions", h.inTurn(h.connections)},
		{"/v1/records", "the last records, and with follow=1 those to come", h.records},
		{"/v1/services", "the service ports of this node", h.inTurn(h.services)},
		{"/v1/endpoints", "their endpoints", h.inTurn(h.endpoints)},
	}
	for _, mux := range []*http.ServeMux{h.all, h.readOnly} {
		for _, v := range h.views {
			mux.Handle("GET "+v.path, withErrors(v.serve))
		}
		mux.Handle("GET /v1/{$}", withErrors(h.index))
	}
	h.all.Handle("GET /v1/explain", withErrors(h.explain)) // for root alone: it runs commands
	h.all.Handle("POST /v1/cut", withErrors(h.cut))
	h.all.Handle("POST /v1/drain", withErrors(h.drain))
	h.all.Handle("POST /v1/undrain", withErrors(h.undrain))
	h.all.Handle("POST /v1/loglevel", withErrors(h.setLogLevel))
	return h
}

package adminsocket

import "net/http"

// NewHandler returns a handler of all paths.
func NewHandler(d Daemon) *Handler {
	h := &Handler{daemon: d, all: http.NewServeMux(), readOnly: http.NewServeMux(),
		followers: followers{most: maxFollowers, tooMany: errTooMany},
		readers:   followers{most: maxReaders, tooMany: errManyReaders},
		lists:     make(chan struct{}, maxLists),
		tcpLists:  make(chan struct{}, maxLists/2), captures: newCaptures()}
	h.views = []view{
		{"/v1/info", "the daemon itself", h.info, nil},
		{"/v1/connections", "open connections and UDP sessions", h.inTurn(h.connections), nil},
		{"/v1/records", "the last records, and with follow=1 those to come", h.records, h.recordsForRoot},
		{"/v1/changes", "what changed on this node, and with follow=1 what changes", h.changes, nil},
		{"/v1/services", "the service ports of this node", h.inTurn(h.services), nil},
		{"/v1/endpoints", "their endpoints", h.inTurn(h.endpoints), nil},
	}
	for _, mux := range []*http.ServeMux{h.all, h.readOnly} {
		for _, v := range h.views {
			serve := v.serve
			if v.forRoot != nil && mux == h.all {
				serve = v.forRoot
			}
			mux.Handle("GET "+v.path, withErrors(serve))
		}
		mux.Handle("GET /v1/{$}", withErrors(h.index))
	}
	h.all.Handle("GET /v1/explain", withErrors(h.explain)) // for root alone: it runs commands
	h.all.Handle("GET /v1/flip", withErrors(h.flip))       // as above: it lists the conntrack table
	h.all.Handle("POST /v1/probe", withErrors(h.probe))
	h.all.Handle("POST /v1/capture", withErrors(h.capture))
	h.all.Handle("POST /v1/payload", withErrors(h.inTurn(h.payload)))
	h.all.Handle("GET /v1/configuration", withErrors(h.configuration))
	h.all.HandleFunc("GET /v1/metrics", func(w http.ResponseWriter, r *http.Request) { h.daemon.Metrics.ServeHTTP(w, r) })
	h.all.Handle("POST /v1/cut", withErrors(h.cut))
	h.all.Handle("POST /v1/drain", withErrors(h.drain))
	h.all.Handle("POST /v1/undrain", withErrors(h.undrain))
	h.all.Handle("POST /v1/loglevel", withErrors(h.setLogLevel))
	return h
}

package adminsocket

import (
	"net/http"
	"time"
)

// connections streams the open connections and sessions that match.
func (h *Handler) connections(w http.ResponseWriter, r *http.Request) error {
	query, err := parseConnections(r.URL.Query())
	if err != nil {
		return err
	}
	return writeList(w, query.choose(r.Context(), &h.daemon, time.Now()), appendConnection)
}

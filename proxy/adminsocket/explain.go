package adminsocket

import (
	"net/http"
)

func (h *Handler) explain(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if err := onlyKeys(query, "what", "from"); err != nil {
		return err
	}
	report, err := h.daemon.Explain(r.Context(), query.Get("what"), query.Get("from"), false)
	if err != nil {
		return badRequest("explain %w", err)
	}
	return writeJSON(w, report)
}

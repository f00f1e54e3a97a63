package adminsocket

import (
	"context"
	"net/http"
	"net/url"

	"github.com/portald/portald/proxy/explain"
)

// Explain returns what this node does for a Service, an address, a pod or a connection, for the client of an address or
// for all (empty), and why. A report that knows nothing has the nearest names.
func (c *Client) Explain(ctx context.Context, what, from string) (report explain.Report, err error) {
	query := url.Values{"what": {what}}
	if from != "" {
		query.Set("from", from)
	}
	return report, c.Get(ctx, "/v1/explain", query, &report)
}

func (h *Handler) explain(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if err := onlyKeys(query, "what", "from"); err != nil {
		return err
	}
	report, err := h.daemon.Explain(r.Context(), query.Get("what"), query.Get("from"))
	if err != nil {
		return badRequest("explain %w", err)
	}
	return writeJSON(w, report)
}

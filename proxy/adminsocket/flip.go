package adminsocket

import (
	"context"
	"net/http"
	"net/url"

	"github.com/portald/portald/proxy/explain"
)

func (h *Handler) flip(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if err := onlyKeys(query, "what", "to"); err != nil {
		return err
	}
	report, err := h.daemon.Flip(r.Context(), query.Get("what"), query.Get("to"))
	if err != nil {
		return badRequest("explain --as %w", err)
	}
	return writeJSON(w, report)
}

// Flip returns what would change if a Service had another mode, userspace or kernel. A report that knows nothing has
// the nearest names.
func (c *Client) Flip(ctx context.Context, what, to string) (report explain.Report, err error) {
	return report, c.Get(ctx, "/v1/flip", url.Values{"what": {what}, "to": {to}}, &report)
}

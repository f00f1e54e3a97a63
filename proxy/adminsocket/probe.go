package adminsocket

import (
	"context"
	"net/http"

	"github.com/portald/portald/proxy/explain"
)

// Probe asks for a report whose endpoints are probed: see Daemon.Explain. It is no GET, because it sends something.
type Probe struct {
	What string `json:"what"`
	From string `json:"from,omitempty"`
}

func (h *Handler) probe(w http.ResponseWriter, r *http.Request) error {
	var request Probe
	if err := read(r, &request); err != nil {
		return err
	}
	report, err := h.daemon.Explain(r.Context(), request.What, request.From, true)
	if err != nil {
		return badRequest("explain %w", err)
	}
	return writeJSON(w, report)
}

// Probe is Explain of a Service, an address or a pod, and probes the endpoints that are meant: this node sends a TCP
// connect to each, and one connect and one ping to its host.
func (c *Client) Probe(ctx context.Context, p Probe) (report explain.Report, err error) {
	return report, c.Post(ctx, "/v1/probe", p, &report)
}

package adminsocket

import (
	"net/http"
	"slices"
	"strings"
)

func (h *Handler) drain(w http.ResponseWriter, r *http.Request) error {
	return h.changeDrains(w, r, h.daemon.Drain)
}

func (h *Handler) undrain(w http.ResponseWriter, r *http.Request) error {
	return h.changeDrains(w, r, func(e *Endpoint, _ bool) error { return h.daemon.Undrain(e) })
}

// changeDrains has each endpoint that is meant drained, or not drained any more.
func (h *Handler) changeDrains(w http.ResponseWriter, r *http.Request, change func(*Endpoint, bool) error) error {
	var request Drain
	if err := read(r, &request); err != nil {
		return err
	}
	if request.Endpoint == "" {
		return badRequest("endpoint is missing: write an address:port, an address or a pod")
	}
	if strings.ContainsAny(request.Endpoint+request.Service, `*?[\\`) {
		return badRequest("endpoint %s %s: must name one, without *", request.Endpoint, request.Service)
	}
	query := &EndpointQuery{Endpoints: []string{request.Endpoint}}
	if request.Service != "" {
		query.Services = []string{request.Service}
	}
	result := DrainResult{Done: []DrainedEndpoint{}, Refused: []DrainedEndpoint{}}
	for _, e := range slices.Collect(h.chosenEndpoints(r, query)) {
		one := DrainedEndpoint{Service: e.Service, Protocol: e.Protocol, Address: e.Address, Pod: e.Pod, Open: e.Open}
		if err := change(e, request.Force); err != nil {
			one.Why = err.Error()
			result.Refused = append(result.Refused, one)
		} else {
			result.Done = append(result.Done, one)
		}
	}
	if len(result.Done)+len(result.Refused) == 0 {
		return notFound("no Service of this node has an endpoint %s", request.Endpoint)
	}
	return writeJSON(w, result)
}

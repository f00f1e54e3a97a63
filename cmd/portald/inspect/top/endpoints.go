package top

import (
	"context"
	"fmt"
	"time"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/proxy/adminsocket"
)

type endpointRow = row[adminsocket.Endpoint]

// The rates of endpoints.
const (
	rateDials = iota
	rateFailures
)

// newEndpoints is the page of the endpoints of a service port.
func newEndpoints(s *screen, of *adminsocket.Service) *list[adminsocket.Endpoint] {
	service, protocol := of.Name, of.Protocol
	return newList(&list[adminsocket.Endpoint]{
		screen: s, title: inspect.Text(service), keys: "Enter connections  d drain  u undrain",
		columns: endpointColumns(),
		id:      func(e *adminsocket.Endpoint) string { return e.Address.String() },
		counts:  func(e *adminsocket.Endpoint) []uint64 { return []uint64{counted(e.Dials), counted(e.Failures)} },
		fetch: func(ctx context.Context, _ listRequest) (out []adminsocket.Endpoint, err error) {
			all, err := s.client.Endpoints(ctx, adminsocket.EndpointQuery{
				ServiceQuery: adminsocket.ServiceQuery{Services: []string{service}}})
			for _, e := range all { // one without a port name is asked for by the name of all of its ports
				if e.Service == service && e.Protocol == protocol {
					out = append(out, e)
				}
			}
			return out, err
		},
		open: func(e *adminsocket.Endpoint) {
			s.enter(newConnections(s, ofService(service, protocol).at(e.Address)))
		},
		actions: map[rune]func(*adminsocket.Endpoint){
			'd': func(e *adminsocket.Endpoint) { s.drain(e, "Drain", s.client.Drain) },
			'u': func(e *adminsocket.Endpoint) { s.drain(e, "Undrain", s.client.Undrain) },
		},
	})
}

func endpointColumns() []column[adminsocket.Endpoint] {
	type r = *endpointRow
	return []column[adminsocket.Endpoint]{
		{name: "ENDPOINT", text: func(r r) string { return inspect.Address(r.now.Address) }},
		{name: "POD", text: func(r r) string { return inspect.Text(r.now.Pod) }},
		{name: "NODE", text: func(r r) string { return inspect.Text(r.now.Node) }},
		{name: "STATE", text: func(r r) string { return inspect.Text(r.now.State) }, paint: paintEndpoint},
		numberIfAny("OPEN", func(e *adminsocket.Endpoint) *int { return e.Open }),
		rate[adminsocket.Endpoint]("DIALS/S", rateDials, perSecond),
		rate[adminsocket.Endpoint]("FAILED/S", rateFailures, perSecond).
			painted(func(r r) meaning { return badIf(r.rates[rateFailures] > 0) }),
		numberIfAny("FAILED", func(e *adminsocket.Endpoint) *uint64 { return e.Failures }),
		millis("DIAL-P50", func(e *adminsocket.Endpoint) *float64 { return e.DialP50ms }),
		millis("DIAL-P99", func(e *adminsocket.Endpoint) *float64 { return e.DialP99ms }),
		millis("FIRST-BYTE-P50", func(e *adminsocket.Endpoint) *float64 { return e.FirstByteP50ms }),
		millis("FIRST-BYTE-P99", func(e *adminsocket.Endpoint) *float64 { return e.FirstByteP99ms }),
		{name: "LAST-ERROR", text: lastError},
	}
}

func paintEndpoint(r *endpointRow) meaning {
	if r.now.State == "used" {
		return plain
	}
	return warn
}

func lastError(r *endpointRow) string {
	e := &r.now
	if e.LastError == "" || e.LastErrorAt == nil {
		return "-"
	}
	return inspect.Text(e.LastError) + ", " + inspect.Age(time.Now(), *e.LastErrorAt) + " ago"
}

// drain asks, then keeps new connections away from an endpoint in all Services that it serves, or no longer does.
func (s *screen) drain(
	e *adminsocket.Endpoint, what string, do func(context.Context, adminsocket.Drain) (adminsocket.DrainResult, error),
) {
	endpoint := e.Address.String()
	prompt := fmt.Sprintf("%s %s (%s) in every Service that it serves?", what, endpoint, inspect.Text(e.Pod))
	s.confirm(prompt, func(ctx context.Context) (string, error) {
		answer, err := do(ctx, adminsocket.Drain{Endpoint: endpoint})
		if err != nil {
			return "", err
		}
		if len(answer.Refused) > 0 {
			return "", fmt.Errorf("%s of %s: %s", what, answer.Refused[0].Service, answer.Refused[0].Why)
		}
		return fmt.Sprintf("%s %s: done in %s", what, endpoint, plural(len(answer.Done), "Service port")), nil
	})
}

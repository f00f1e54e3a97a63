package top

import (
	"context"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/proxy/adminsocket"
)

type serviceRow = row[adminsocket.Service]

// newServices is the page of all Services.
func newServices(s *screen) *list[adminsocket.Service] {
	return newList(&list[adminsocket.Service]{
		screen: s, title: "Services", sorted: 3,
		keys:    "Enter endpoints  o connections  l records",
		columns: serviceColumns(),
		id:      func(v *adminsocket.Service) string { return v.Name + "/" + v.Protocol },
		counts: func(v *adminsocket.Service) []uint64 {
			begun := counted(v.Ended)
			if v.Open != nil && begun != unknown {
				begun += uint64(*v.Open)
			}
			return []uint64{counted(v.BytesUp), counted(v.BytesDown), begun, counted(v.Failed)}
		},
		fetch: func(ctx context.Context, _ listRequest) ([]adminsocket.Service, error) {
			return s.client.Services(ctx, adminsocket.ServiceQuery{})
		},
		open: func(v *adminsocket.Service) { s.enter(newEndpoints(s, v)) },
		actions: map[rune]func(*adminsocket.Service){
			'o': func(v *adminsocket.Service) { s.enter(newConnections(s, ofService(v.Name, v.Protocol))) },
			'l': func(v *adminsocket.Service) { s.enter(newRecords(s, v.Name)) },
		},
	})
}

func serviceColumns() []column[adminsocket.Service] {
	type r = *serviceRow
	return []column[adminsocket.Service]{
		{name: "SERVICE", text: func(r r) string { return inspect.Text(r.now.Name) }, paint: paintService},
		{name: "PROTO", text: func(r r) string { return inspect.Text(r.now.Protocol) }},
		{name: "MODE", text: func(r r) string { return inspect.Text(r.now.Mode) }},
		rate[adminsocket.Service]("NEW/S", rateNew, perSecond),
		numberIfAny("OPEN", func(v *adminsocket.Service) *int { return v.Open }),
		rate[adminsocket.Service]("FAILED/S", rateFailed, perSecond).
			painted(func(r r) meaning { return badIf(r.rates[rateFailed] > 0) }),
		rate[adminsocket.Service]("UP/S", rateUp, bytesPerSecond),
		rate[adminsocket.Service]("DOWN/S", rateDown, bytesPerSecond),
		number("USABLE", func(v *adminsocket.Service) int { return v.Usable }).
			painted(func(r r) meaning { return badIf(r.now.Usable == 0) }),
		number("ENDPOINTS", func(v *adminsocket.Service) int { return v.Endpoints }),
		{name: "PROBLEM", text: func(r r) string { return inspect.Text(r.now.Problem) }, paint: paintService},
	}
}

func paintService(r *serviceRow) meaning { return badIf(r.now.Problem != "") }

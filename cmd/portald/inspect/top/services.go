package top

import (
	"context"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/proxy/adminapi"
)

type serviceRow = row[adminapi.Service]

// newServices is the page of all Services.
func newServices(s *screen) *list[adminapi.Service] {
	return newList(&list[adminapi.Service]{
		screen: s, title: "Services", sorted: 3,
		keys:    "Enter endpoints  o connections  l records",
		columns: serviceColumns(),
		id:      func(v *adminapi.Service) string { return v.Name + "/" + v.Protocol },
		counts: func(v *adminapi.Service) []uint64 {
			return []uint64{v.BytesUp, v.BytesDown, v.Ended + uint64(v.Open), v.Failed}
		},
		ask: func(ctx context.Context, _ wish) ([]adminapi.Service, error) {
			return s.client.Services(ctx, adminapi.ServiceQuery{})
		},
		open: func(v *adminapi.Service) { s.enter(newEndpoints(s, v)) },
		actions: map[rune]func(*adminapi.Service){
			'o': func(v *adminapi.Service) { s.enter(newConnections(s, ofService(v.Name, v.Protocol))) },
			'l': func(v *adminapi.Service) { s.enter(newRecords(s, v.Name)) },
		},
	})
}

func serviceColumns() []column[adminapi.Service] {
	type r = *serviceRow
	return []column[adminapi.Service]{
		{name: "SERVICE", text: func(r r) string { return inspect.Text(r.now.Name) }, paint: paintService},
		{name: "PROTO", text: func(r r) string { return inspect.Text(r.now.Protocol) }},
		{name: "MODE", text: func(r r) string { return inspect.Text(r.now.Mode) }},
		rate[adminapi.Service]("NEW/S", rateNew, perSecond),
		number("OPEN", func(v *adminapi.Service) int { return v.Open }),
		rate[adminapi.Service]("FAILED/S", rateFailed, perSecond).
			painted(func(r r) meaning { return badIf(r.rates[rateFailed] > 0) }),
		rate[adminapi.Service]("UP/S", rateUp, bytesPerSecond),
		rate[adminapi.Service]("DOWN/S", rateDown, bytesPerSecond),
		number("USABLE", func(v *adminapi.Service) int { return v.Usable }).
			painted(func(r r) meaning { return badIf(r.now.Usable == 0) }),
		number("ENDPOINTS", func(v *adminapi.Service) int { return v.Endpoints }),
		{name: "PROBLEM", text: func(r r) string { return inspect.Text(r.now.Problem) }, paint: paintService},
	}
}

func paintService(r *serviceRow) meaning { return badIf(r.now.Problem != "") }

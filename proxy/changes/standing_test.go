package changes

import (
	"testing"
	"time"

	"github.com/portald/portald/portal/service"
)

// Since when an endpoint is as it is follows from its last changes, and is not known where some are missing.
func TestStanding(t *testing.T) {
	e, now := endpoint(1).Addr, at
	when := func(second int) time.Time { return now.Add(time.Duration(second) * time.Second) }
	other := service.PortName{Namespace: "shop", Name: "quiet"}
	for what, c := range map[string]struct {
		kinds                    []Kind // one each second
		as, ifEjected, ifDrained int    // the second; -1: not known
	}{
		"nothing":                  {nil, -1, -1, -1},
		"with its Service":         {[]Kind{ServiceAdded}, 0, -1, -1},
		"of another Service":       {[]Kind{ServiceRemoved}, -1, -1, -1},
		"ready again":              {[]Kind{EndpointAdded, EndpointNotReady, EndpointReady}, 2, -1, -1},
		"ejected":                  {[]Kind{EndpointAdded, EndpointEjected}, 0, 1, -1},
		"back":                     {[]Kind{EndpointAdded, EndpointEjected, EndpointBack}, 2, -1, -1},
		"back, before all changes": {[]Kind{EndpointBack}, 0, -1, -1},
		"drained":                  {[]Kind{ServiceAdded, EndpointDrained}, 0, -1, 1},
		"undrained":                {[]Kind{EndpointDrained, EndpointUndrained}, 1, -1, -1},
		"among many":               {[]Kind{EndpointReady, EndpointsChanged}, -1, -1, -1},
		"with some left out":       {[]Kind{EndpointReady, LeftOut}, -1, -1, -1},
		"after some left out":      {[]Kind{LeftOut, EndpointReady}, 1, -1, -1},
		"what it does not concern": {[]Kind{EndpointReady, ModeChanged, ConnectionsCut}, 0, -1, -1},
	} {
		l := NewLog(100)
		l.Add(Change{Time: now, Kind: ServiceAdded, Service: other})
		for i, k := range c.kinds {
			l.Add(Change{Time: when(i), Kind: k, Service: name, Endpoint: e})
		}
		s := l.Standing()
		for _, ask := range []struct {
			ejected, drained bool
			want             int
		}{{false, false, c.as}, {true, false, c.ifEjected}, {false, true, c.ifDrained}} {
			want := time.Time{}
			if ask.want >= 0 {
				want = when(ask.want)
			}
			if got := s.Since(name, e, ask.ejected, ask.drained); !got.Equal(want) {
				t.Errorf("%s: ejected %t, drained %t: since %v, want %v", what, ask.ejected, ask.drained, got, want)
			}
		}
	}
}

package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// refusedLine says how many packets rules refused, and why; empty: none, as far as is known.
func (s *Subject) refusedLine() (status Status, text string) {
	switch {
	case s.Refused.Packets == 0:
		return Fact, ""
	case !s.refuses():
		return Fact, s.refusals() + ", and none after " + clock(s.Refused.Until) + " UTC: there was no endpoint"
	case s.unserved():
		return Wrong, s.refusals() + ": it is not served"
	}
	return Wrong, s.refusals() + ": no endpoint"
}

// refuses tells whether a frontend refuses clients, some or all.
func (s *Subject) refuses() bool {
	return s.Applied != nil && slices.ContainsFunc(s.Applied.OwnPortals(), portal.Portal.Refuses)
}

// unserved tells whether clients are refused for another reason than that there is no endpoint.
func (s *Subject) unserved() bool {
	return s.Applied.Quarantine != "" || !s.Applied.Mode.Or(service.ModeUserspace).Carries(s.Port.Name.Protocol)
}

// refusals begins a sentence. A client that tries again sends more than one packet.
func (s *Subject) refusals() string {
	packets := "1 packet of clients was"
	if n := s.Refused.Packets; n != 1 {
		packets = fmt.Sprintf("%d packets of clients were", n)
	}
	return fmt.Sprintf("%s refused since %s UTC", packets, clock(s.Refused.Since))
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

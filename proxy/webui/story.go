package webui

import (
	"fmt"
	"strings"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

// Step is what happened to a connection, and when.
type Step struct {
	AtMS   *float64 `json:"at_ms"`             // since the accept; null: the record does not tell
	About  bool     `json:"about,omitempty"`   // the record tells how long dials took, and not when they began
	TookMS float64  `json:"took_ms,omitempty"` // of what has a length
	Kind   string   `json:"kind"`              // accepted, waited, dialled, refused, connected, first_byte, blocked, ended
	Text   string   `json:"text"`
	Bad    bool     `json:"bad,omitempty"`
}

// Story tells a connection's life as its record has it, from the accept to the end.
func Story(l *connlog.Line) []Step {
	s := &story{line: l}
	s.accepted()
	for i := range l.Attempts {
		s.dialled(&l.Attempts[i])
	}
	s.answered()
	s.blocked()
	s.ended()
	return s.steps
}

type story struct {
	line  *connlog.Line
	steps []Step
	clock float64 // until which the dials so far took
}

func (s *story) add(at float64, step Step, format string, values ...any) {
	step.AtMS, step.Text = &at, fmt.Sprintf(format, values...)
	s.steps = append(s.steps, step)
}

func (s *story) accepted() {
	l := s.line
	kind := ""
	if l.Portal != "" {
		kind = " (" + l.Portal + ")"
	}
	s.add(0, Step{Kind: "accepted"}, "%s came to %s%s", withPod(l.Client.String(), l.ClientPod), l.OriginalDst, kind)
	if l.WaitedMS > 0 {
		s.clock = l.WaitedMS
		s.add(0, Step{Kind: "waited", TookMS: l.WaitedMS}, "it waited for an endpoint of %s", l.Service)
	}
	if l.Ejected > 0 {
		s.steps = append(s.steps, Step{Kind: "waited", Text: fmt.Sprintf(
			"endpoints that were left out, since they had failed other connections: %d", l.Ejected)})
	}
}

func (s *story) dialled(a *connlog.Attempt) {
	step := Step{Kind: "refused", TookMS: a.MS, About: true, Bad: a.Error != record.Overtaken}
	switch {
	case a.Error == "":
		s.connected(a)
		return
	case a.Error == record.Overtaken:
		step.Kind = "dialled"
	}
	text := fmt.Sprintf("%s was dialled: %s", a.Endpoint, a.Error)
	if a.Times > 1 {
		text = fmt.Sprintf("%s was dialled %d times: %s", a.Endpoint, a.Times, a.Error)
	}
	if a.Hedge {
		text += ", while another dial was under way"
	}
	text += ejection(a.Ejection)
	s.add(s.clock, step, "%s", text)
	if !a.Hedge {
		s.clock += a.MS
	}
}

func (s *story) connected(a *connlog.Attempt) {
	at, about := s.clock+a.MS, true
	if s.line.ConnectMS != nil {
		at, about = *s.line.ConnectMS, false
	}
	pod := ""
	if a.Endpoint == s.line.Endpoint {
		pod = s.line.Pod
	}
	s.add(max(0, at-a.MS), Step{Kind: "connected", TookMS: a.MS, About: about}, "%s accepted%s",
		withPod(a.Endpoint.String(), pod), ejection(a.Ejection))
	s.clock = at
}

func ejection(e connlog.Ejection) string {
	switch e {
	case connlog.Ejected:
		return "; it was left out from then on (ejected)"
	case connlog.Probe:
		return "; it had been left out (ejected), and was tried again"
	case connlog.ProbeFailed:
		return "; it was tried again after it had been left out, and stays left out (ejected)"
	}
	return ""
}

func (s *story) answered() {
	l := s.line
	if l.Replays > 0 {
		s.steps = append(s.steps, Step{Kind: "dialled", Bad: true, Text: fmt.Sprintf(
			"what the client had sent was sent again to another endpoint: %d times", l.Replays)})
	}
	if l.FirstByteMS != nil {
		s.add(*l.FirstByteMS, Step{Kind: "first_byte"}, "the first byte of the endpoint")
	} else if l.ConnectMS != nil && l.Outcome != record.OutcomeOK {
		s.steps = append(s.steps, Step{Kind: "first_byte", Bad: true, Text: "no byte came from the endpoint"})
	}
}

func (s *story) blocked() {
	for _, side := range []struct {
		name string
		ms   float64
	}{{"client", s.line.ClientBlockedMS}, {"endpoint", s.line.EndpointBlockedMS}} {
		if side.ms > 0 {
			s.steps = append(s.steps, Step{Kind: "blocked", TookMS: side.ms,
				Text: "bytes waited, because the " + side.name + " did not accept them"})
		}
	}
}

func (s *story) ended() {
	l := s.line
	text := Sentence(l)
	if l.Error != "" {
		text += " (" + strings.Trim(l.Errno+": "+l.Error, ": ") + ")"
	}
	s.add(l.DurationMS, Step{Kind: "ended", Bad: !l.Outcome.Well()}, "%s", text)
}

func withPod(address, pod string) string {
	if pod == "" {
		return address
	}
	return address + " (" + pod + ")"
}

package connlog

import "github.com/portald/portald/proxy/record"

// Termination is how the connection ended in two characters, as in HAProxy's log. First who or what ended it: C the
// client, S the endpoint, c or s a timeout of that side, P a rule or limit of the proxy, R resources, D the endpoint
// was taken away, K by force, - one of the sides. Then when: R at once, C before an endpoint was connected, D after
// that. "--" is a normal end, and what has not ended.
func Termination(r *record.Record) string {
	phase := "D"
	if r.Connect < 0 && r.CarriedBy != record.Kernel { // which does not tell when it connected
		phase = "C"
	}
	switch r.Outcome {
	case record.OutcomeClientReset:
		return "C" + phase
	case record.OutcomeEndpointReset, record.OutcomeClosedEarly:
		return "S" + phase
	case record.OutcomeClientLost, record.OutcomeHalfClosed, record.OutcomeIdle:
		return "c" + phase
	case record.OutcomeEndpointLost:
		return "s" + phase
	case record.OutcomeDialFailed:
		return dialFailed(r)
	case record.OutcomeNoEndpoint:
		return "SC"
	case record.OutcomeNotPortal, record.OutcomeSourceRange:
		return "PR"
	case record.OutcomeLimit, record.OutcomeMaxAge:
		return "P" + phase
	case record.OutcomeClientLimit, record.OutcomeRate, record.OutcomeClientRate, record.OutcomeWaitLimit:
		return "PC"
	case record.OutcomeResources:
		return "R" + phase
	case record.OutcomeEndpointRemoved:
		return "D" + phase
	case record.OutcomeServiceRemoved, record.OutcomeCut:
		return "K" + phase
	case record.OutcomeReset:
		return "-" + phase
	case record.OutcomeUnanswered:
		return "sC"
	}
	return "--"
}

// dialFailed is sC if the last dial had no answer in its time, SC if it was refused.
func dialFailed(r *record.Record) string {
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Err == "timeout" {
		return "sC"
	}
	return "SC"
}

// Flags are Envoy's response flags that occur in TCP, separated by commas: UH no endpoint, UF no endpoint was reached,
// URX nor by further dials, UO a limit or a shortage, DT a connection as old as it may be, NR a client that no frontend
// is for. "" is none.
func Flags(r *record.Record) string {
	switch r.Outcome {
	case record.OutcomeNoEndpoint:
		return "UH"
	case record.OutcomeDialFailed:
		if r.CarriedBy == record.Kernel { // which dials once
			return "UF"
		}
		return "UF,URX"
	case record.OutcomeLimit, record.OutcomeClientLimit, record.OutcomeRate, record.OutcomeClientRate,
		record.OutcomeWaitLimit, record.OutcomeResources:
		return "UO"
	case record.OutcomeMaxAge:
		return "DT"
	case record.OutcomeNotPortal, record.OutcomeSourceRange:
		return "NR"
	}
	return ""
}

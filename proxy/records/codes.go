package records

import "github.com/portald/portald/proxy/splice"

// Termination is how the connection ended in two characters, as in HAProxy's log. First who or what ended it: C the
// client, S the endpoint, c or s a timeout of that side, P a rule or limit of the proxy, R resources, D the endpoint
// was taken away, K by force, - one of the sides. Then when: R at once, C before an endpoint was connected, D after
// that. "--" is a normal end, and what has not ended.
func Termination(r *splice.Record) string {
	phase := "D"
	if r.Connect < 0 && r.CarriedBy != splice.Kernel { // which does not tell when it connected
		phase = "C"
	}
	switch r.Outcome {
	case splice.OutcomeClientReset:
		return "C" + phase
	case splice.OutcomeEndpointReset:
		return "S" + phase
	case splice.OutcomeClientLost, splice.OutcomeHalfClosed, splice.OutcomeIdle:
		return "c" + phase
	case splice.OutcomeEndpointLost:
		return "s" + phase
	case splice.OutcomeDialFailed:
		return dialFailed(r)
	case splice.OutcomeNoEndpoint:
		return "SC"
	case splice.OutcomeNotPortal, splice.OutcomeSourceRange:
		return "PR"
	case splice.OutcomeLimit, splice.OutcomeMaxAge:
		return "P" + phase
	case splice.OutcomeClientLimit, splice.OutcomeRate, splice.OutcomeClientRate, splice.OutcomeWaitLimit:
		return "PC"
	case splice.OutcomeResources:
		return "R" + phase
	case splice.OutcomeEndpointRemoved:
		return "D" + phase
	case splice.OutcomeServiceRemoved, splice.OutcomeCut:
		return "K" + phase
	case splice.OutcomeReset:
		return "-" + phase
	case splice.OutcomeUnanswered:
		return "sC"
	}
	return "--"
}

// dialFailed is sC if the last dial had no answer in its time, SC if it was refused.
func dialFailed(r *splice.Record) string {
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Err == "timeout" {
		return "sC"
	}
	return "SC"
}

// Flags are Envoy's response flags that occur in TCP, with commas between: UH no endpoint, UF no endpoint was reached,
// URX nor by further dials, UO a limit or a shortage, DT a connection as old as it may be, NR a client that no frontend
// is for. "" is none.
func Flags(r *splice.Record) string {
	switch r.Outcome {
	case splice.OutcomeNoEndpoint:
		return "UH"
	case splice.OutcomeDialFailed:
		if r.CarriedBy == splice.Kernel { // which dials once
			return "UF"
		}
		return "UF,URX"
	case splice.OutcomeLimit, splice.OutcomeClientLimit, splice.OutcomeRate, splice.OutcomeClientRate,
		splice.OutcomeWaitLimit, splice.OutcomeResources:
		return "UO"
	case splice.OutcomeMaxAge:
		return "DT"
	case splice.OutcomeNotPortal, splice.OutcomeSourceRange:
		return "NR"
	}
	return ""
}

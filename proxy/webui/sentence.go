package webui

import (
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

// Sentence says in words how a connection ended, and who ended it.
func Sentence(l *connlog.Line) string {
	if text := sentences()[l.Outcome]; text != "" {
		return text
	}
	return "ended: " + string(l.Outcome) // a newer version may have more outcomes
}

func sentences() map[record.Outcome]string {
	return map[record.Outcome]string{
		record.OutcomeOK:              "both sides closed in order",
		record.OutcomeClientReset:     "the client reset the connection",
		record.OutcomeEndpointReset:   "the endpoint reset the connection",
		record.OutcomeClosedEarly:     "the endpoint closed in mid-exchange, and refused the next dial: its process ended",
		record.OutcomeClientLost:      "the client stopped answering",
		record.OutcomeEndpointLost:    "the endpoint stopped answering",
		record.OutcomeHalfClosed:      "one side had closed, and no more data came from the other one",
		record.OutcomeIdle:            "no data for too long",
		record.OutcomeDialFailed:      "no endpoint could be reached",
		record.OutcomeNoEndpoint:      "the Service had no endpoint",
		record.OutcomeWaitLimit:       "refused: too many clients waited for an endpoint",
		record.OutcomeNotPortal:       "refused: the client came to a proxy port, not to an address of a Service",
		record.OutcomeSourceRange:     "refused: loadBalancerSourceRanges exclude the client",
		record.OutcomeLimit:           "refused: the Service had as many connections as it may have",
		record.OutcomeClientLimit:     "refused: the client had as many connections as it may have",
		record.OutcomeRate:            "refused: more new connections a second than the Service may have",
		record.OutcomeClientRate:      "refused: more new connections a second than a client may open",
		record.OutcomeResources:       "refused: no descriptors, ports or memory left, or no share of them",
		record.OutcomeEndpointRemoved: "ended by portald: the endpoint was removed",
		record.OutcomeServiceRemoved:  "ended by portald: the Service was removed",
		record.OutcomeCut:             "cut: by portald cut, at the end of a drain, or its conntrack entry was removed",
		record.OutcomeReset:           "one of the sides reset it; the kernel, which carried it, does not tell which",
		record.OutcomeUnanswered:      "no answer came",
		record.OutcomeMaxAge:          "it reached its max-age and was quiet",
	}
}

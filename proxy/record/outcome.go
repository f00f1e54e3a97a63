package record

// Side is who ended a connection first.
type Side string

// The sides. The proxy ends what it refuses, what timed out and what a drain cuts.
const (
	Client   Side = "client"
	Endpoint Side = "endpoint"
	Proxy    Side = "proxy"
)

// CloseType is how the connection was closed.
type CloseType string

// The close types.
const (
	FIN     CloseType = "fin"
	Reset   CloseType = "reset"
	Timeout CloseType = "timeout"
)

// Outcome is how a connection ended, from a closed set of words: the label of metrics.
type Outcome string

// The outcomes.
const (
	OutcomeOK              Outcome = "ok"                 // both streams ended by FIN; UDP: the idle timeout
	OutcomeClientReset     Outcome = "client_reset"       // the client reset the connection
	OutcomeEndpointReset   Outcome = "endpoint_reset"     // the endpoint reset it, or refused a UDP datagram
	OutcomeClosedEarly     Outcome = "closed_early"       // by FIN in mid-exchange, then the endpoint refused a dial
	OutcomeClientLost      Outcome = "client_lost"        // no answer of its host: keepalive or retransmission timeout
	OutcomeEndpointLost    Outcome = "endpoint_lost"      // the same of the endpoint's
	OutcomeHalfClosed      Outcome = "half_close_timeout" // one stream ended, and no byte came on the other
	OutcomeIdle            Outcome = "idle_timeout"       // no byte either way for the idle timeout (TCP)
	OutcomeDialFailed      Outcome = "dial_failed"        // every attempt failed
	OutcomeNoEndpoint      Outcome = "no_endpoint"        // the service port had none
	OutcomeWaitLimit       Outcome = "wait_limit"         // it waited for one, and too many of its Service did
	OutcomeNotPortal       Outcome = "not_a_portal"       // the client connected to the proxy port itself
	OutcomeSourceRange     Outcome = "source_range"       // loadBalancerSourceRanges leave the client out
	OutcomeLimit           Outcome = "limit"              // MaxConnections of the policy; UDP: evicted for another
	OutcomeClientLimit     Outcome = "client_limit"       // MaxConnectionsPerClient of the policy
	OutcomeRate            Outcome = "rate"               // ConnectionRate of the policy
	OutcomeClientRate      Outcome = "client_rate"        // ConnectionRatePerClient of the policy
	OutcomeResources       Outcome = "resources"          // out of descriptors, ports or memory
	OutcomeEndpointRemoved Outcome = "endpoint_removed"   // its endpoint went away (TCP: where the policy says so)
	OutcomeMaxAge          Outcome = "max_age"            // MaxAge of the policy, at a quiet moment
	OutcomeServiceRemoved  Outcome = "service_removed"    // a UDP session whose service port went away
	OutcomeCut             Outcome = "cut"                // ended by force, as at the end of a drain
	OutcomeReset           Outcome = "reset"              // carried by the kernel, which does not tell who reset it
	OutcomeUnanswered      Outcome = "unanswered"         // carried by the kernel: a UDP flow without any answer
)

// Outcomes lists all outcomes.
func Outcomes() []Outcome {
	return []Outcome{OutcomeOK, OutcomeClientReset, OutcomeEndpointReset, OutcomeClosedEarly, OutcomeClientLost,
		OutcomeEndpointLost, OutcomeHalfClosed, OutcomeIdle, OutcomeDialFailed, OutcomeNoEndpoint, OutcomeWaitLimit,
		OutcomeNotPortal, OutcomeSourceRange, OutcomeLimit, OutcomeClientLimit, OutcomeRate, OutcomeClientRate,
		OutcomeResources, OutcomeEndpointRemoved, OutcomeServiceRemoved, OutcomeCut, OutcomeReset, OutcomeUnanswered,
		OutcomeMaxAge}
}

// Well tells whether it is no failure: a connection that is closed for its age had all that it wanted.
func (o Outcome) Well() bool { return o == OutcomeOK || o == OutcomeMaxAge }

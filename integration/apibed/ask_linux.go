package apibed

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

const (
	ChangeTimeout  = 2 * time.Minute        // for a change to pass the controllers; no test asserts it
	AnswerTimeout  = 5 * time.Second        // for an expected answer
	NoReplyTimeout = 700 * time.Millisecond // after which a request counts as unanswered
)

// Outcomes of a request that no pod answers.
const (
	Refused = "(refused)"
	Reset   = "(reset)"
	NoReply = "(no reply)"
)

// Outcome sends one request and returns the name of the pod that answered, or Refused, Reset, NoReply or the error.
func Outcome(limit time.Duration, client *topology.Host, network, address string) string {
	a, err := bed.AskWithin(limit, client, network, address)
	var timeout net.Error
	switch {
	case err == nil:
		return a.Pod
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.ECONNRESET):
		return Reset
	case errors.As(err, &timeout) && timeout.Timeout():
		return NoReply
	}
	return err.Error()
}

// Answers waits until exactly these pods answer a client, every one of them; or, if want is Refused, Reset or NoReply,
// until a request has that outcome.
func (b *Bed) Answers(client *topology.Host, network, address string, want ...string) {
	b.Helper()
	limit, times := AnswerTimeout, 2*len(want)
	switch want[0] {
	case NoReply:
		limit, times = NoReplyTimeout, 1
	case Refused, Reset:
		times = 1
	}
	var got []string
	same := func() bool {
		got = nil
		for range times {
			got = append(got, Outcome(limit, client, network, address))
			if !slices.Contains(want, got[len(got)-1]) {
				return false
			}
		}
		slices.Sort(got)
		return slices.Equal(slices.Compact(got), want)
	}
	if !bed.Within(ChangeTimeout, same) {
		b.Fatalf("%s %s from %s: got %s, want %s", network, address, client.Name,
			strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// AnswersBoth is Answers over TCP and UDP.
func (b *Bed) AnswersBoth(client *topology.Host, address string, want ...string) {
	b.Helper()
	b.Answers(client, "tcp", address, want...)
	b.Answers(client, "udp", address, want...)
}

// On80 joins an IP address and port 80.
func On80(ip string) string { return bed.HostPort(ip, 80) }

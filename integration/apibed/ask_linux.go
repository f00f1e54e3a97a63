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
	ApiPatience = 20 * time.Second       // what a change may take, by way of controllers, on a machine that does much else
	ApiAnswer   = 2 * time.Second        // what an answer may take
	APISilence  = 700 * time.Millisecond // what nobody answers in
)

// What a client meets that no pod answers.
const (
	Refused = "(refused)"
	Reset   = "(reset)"
	Silence = "(silence)"
)

// Meets is the name of the pod that answers a client, or what it meets instead.
func Meets(limit time.Duration, client *topology.Host, network, address string) string {
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
		return Silence
	}
	return err.Error()
}

// Answers waits until those who answer a client are these pods, each of them, and no others; or one thing it meets
// instead.
func (b *Bed) Answers(client *topology.Host, network, address string, want ...string) {
	b.Helper()
	limit, times := ApiAnswer, 2*len(want)
	switch want[0] {
	case Silence:
		limit, times = APISilence, 1
	case Refused, Reset:
		times = 1
	}
	var got []string
	same := func() bool {
		got = nil
		for range times {
			got = append(got, Meets(limit, client, network, address))
			if !slices.Contains(want, got[len(got)-1]) {
				return false
			}
		}
		slices.Sort(got)
		return slices.Equal(slices.Compact(got), want)
	}
	if !bed.Within(ApiPatience, same) {
		b.Fatalf("%s %s from %s meets %s, want %s", network, address, client.Name,
			strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// AnswersBoth is answers over TCP and UDP.
func (b *Bed) AnswersBoth(client *topology.Host, address string, want ...string) {
	b.Helper()
	b.Answers(client, "tcp", address, want...)
	b.Answers(client, "udp", address, want...)
}

// On80 is port 80 of an address.
func On80(ip string) string { return bed.HostPort(ip, 80) }

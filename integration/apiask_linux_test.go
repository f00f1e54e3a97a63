package integration

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/portald/portald/integration/topology"
)

const (
	apiPatience = 20 * time.Second       // what a change may take, by way of controllers, on a machine that does much else
	apiAnswer   = 2 * time.Second        // what an answer may take
	apiSilence  = 700 * time.Millisecond // what nobody answers in
)

// What a client meets that no pod answers.
const (
	refused = "(refused)"
	reset   = "(reset)"
	silence = "(silence)"
)

// meets is the name of the pod that answers a client, or what it meets instead.
func meets(limit time.Duration, client *topology.Host, network, address string) string {
	a, err := whoWithin(limit, client, network, address)
	var timeout net.Error
	switch {
	case err == nil:
		return a.pod
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.Is(err, syscall.ECONNRESET):
		return reset
	case errors.As(err, &timeout) && timeout.Timeout():
		return silence
	}
	return err.Error()
}

// answers waits until those who answer a client are these pods, each of them, and no others; or one thing it meets
// instead.
func (b *apiBed) answers(client *topology.Host, network, address string, want ...string) {
	b.Helper()
	limit, times := apiAnswer, 2*len(want)
	switch want[0] {
	case silence:
		limit, times = apiSilence, 1
	case refused, reset:
		times = 1
	}
	var got []string
	same := func() bool {
		got = nil
		for range times {
			got = append(got, meets(limit, client, network, address))
			if !slices.Contains(want, got[len(got)-1]) {
				return false
			}
		}
		slices.Sort(got)
		return slices.Equal(slices.Compact(got), want)
	}
	if !within(apiPatience, same) {
		b.Fatalf("%s %s from %s meets %s, want %s", network, address, client.Name,
			strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// answersBoth is answers over TCP and UDP.
func (b *apiBed) answersBoth(client *topology.Host, address string, want ...string) {
	b.Helper()
	b.answers(client, "tcp", address, want...)
	b.answers(client, "udp", address, want...)
}

// on80 is port 80 of an address.
func on80(ip string) string { return at(ip, 80) }

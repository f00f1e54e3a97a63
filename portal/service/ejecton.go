package service

import (
	"slices"
	"strings"
)

// EjectOn is a set of failures that eject an endpoint. The zero value leaves it to the daemon.
type EjectOn uint8

// The failures.
const (
	EjectConnect     EjectOn = 1 << iota // a dial failed; UDP: a session was refused before an answer
	EjectReset                           // the endpoint broke the connection before its first byte
	EjectClosedEarly                     // it closed the connection in mid-exchange, and refused the next dial
)

// ejectWords are the words for the failures, by their bits.
var ejectWords = [...]string{"connect", "reset-before-response", "closed-early"}

// String is the words that settings use, separated by commas.
func (e EjectOn) String() string {
	var words []string
	for failure, word := range ejectWords {
		if e&(1<<failure) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, ",")
}

// parseEjectOn reads words of Words.
func parseEjectOn(words []string) (e EjectOn) {
	for failure, word := range ejectWords {
		if slices.Contains(words, word) {
			e |= 1 << failure
		}
	}
	return e
}

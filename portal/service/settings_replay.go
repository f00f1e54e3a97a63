package service

import (
	"slices"
	"strings"
)

// replaySettings are for retries after the connect.
func replaySettings() []Setting {
	return []Setting{{
		Name: "retry-on", Field: "retryOn",
		Value: Words{
			Default: RetryConnect.String(),
			Words:   []string{RetryConnect.String(), RetryReset.String()},
			Set:     func(p *Port, words []string) { p.Policy.RetryOn = parseRetryOn(words) },
		},
		Help: "`EVENTS` after which portald tries another endpoint for a TCP connection: connect (a dial failed), which " +
			"always applies, and reset-before-response (the endpoint ended the connection before its first byte; portald " +
			"sends the client's bytes, up to 64 KiB, again)",
		About: "when portald tries another endpoint for a TCP connection: `connect`: a dial failed; " +
			"`reset-before-response`: also if the endpoint ends the connection before its first byte. portald then " +
			"sends the client's bytes again: only for requests that may be executed twice",
		InKernel: "nothing is sent to another endpoint", KernelValue: RetryConnect.String(),
	}}
}

// RetryOn is a set of events after which a connection goes to another endpoint. The zero value leaves it to the daemon.
type RetryOn uint8

// The events.
const (
	RetryConnect RetryOn = 1 << iota // a dial failed; in every set but the zero one
	RetryReset                       // the endpoint ended the connection before its first byte
)

// String is the words that settings use, separated by commas.
func (r RetryOn) String() string {
	var words []string
	for event, word := range retryWords {
		if r&(1<<event) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, ",")
}

// retryWords are the words for the events, by their bits.
var retryWords = [...]string{"connect", "reset-before-response"}

// parseRetryOn reads words of Words.
func parseRetryOn(words []string) RetryOn {
	r := RetryConnect
	for event, word := range retryWords {
		if slices.Contains(words, word) {
			r |= 1 << event
		}
	}
	return r
}

// Words is a set of words, separated by commas.
type Words struct {
	Default string
	Words   []string
	Set     func(*Port, []string)
}

// Form implements Value.
func (v Words) Form() string {
	last := len(v.Words) - 1
	return "one or more of " + strings.Join(v.Words[:last], ", ") + " and " + v.Words[last] + ", separated by commas"
}

// Read implements Value.
func (v Words) Read(text string, port *Port) bool {
	var words []string
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if !slices.Contains(v.Words, word) || slices.Contains(words, word) {
			return false
		}
		words = append(words, word)
	}
	v.Set(port, words)
	return true
}

func (v Words) setDefault(port *Port) { v.Read(v.Default, port) }

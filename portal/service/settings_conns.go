package service

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// connectionSettings are for connections that are open for long.
func connectionSettings() []Setting {
	return []Setting{
		{
			Name: "removed-endpoint", Field: "removedEndpoint",
			Value: Removals{Default: RemovedEndpoint{Do: KeepConnections}},
			Help: "what happens to TCP `CONNECTIONS` of an endpoint that was removed, or no longer serves: keep, " +
				"close-when-idle, or reset-after=TIME",
			About:    "what happens to TCP connections of an endpoint that was removed, or no longer serves",
			InKernel: "connections of removed endpoints go on", KernelValue: keepWord,
		},
		{
			Name: "dead-peer-timeout", Field: "deadPeerTimeout",
			Value:    Timeout{Default: DefaultDeadPeer, Part: func(p *Port) *time.Duration { return &p.Policy.DeadPeer }},
			Help:     "end a TCP connection of which one side's host has not answered for this `TIME`",
			About:    "time without an answer of one side's host after which a TCP connection is closed",
			InKernel: "dead hosts are left to their peers, and to conntrack",
		},
		{
			Name: "max-age", Field: "maxAge",
			Value: Ages{Part: func(p *Port) *Age { return &p.Policy.MaxAge }},
			Help: "close a TCP connection of this `AGE`, such as 10m±20%, at the next moment when it is quiet; " +
				"0: never",
			About:    "age at which a TCP connection is closed, at the next moment when it is quiet",
			InKernel: "connections get as old as they get", KernelValue: "0",
		},
	}
}

// payloadSettings are about what clients and endpoints send.
func payloadSettings() []Setting {
	return []Setting{{
		Name: "keep-payload",
		Value: Choice{
			Words: keepWords[:],
			Set: func(p *Port, word string) {
				p.Policy.KeepPayload = KeepNoPayload
				if word == keepWords[KeepBadlyEnded] {
					p.Policy.KeepPayload = KeepBadlyEnded
				}
			},
		},
		About: "`badly-ended`: the first and last 2 kB of each direction of TCP connections that end badly are " +
			"[kept in memory](debugging.md#what-did-a-client-send), for root; connections are copied then, not spliced",
		InKernel: "no payload is kept", KernelValue: keepWords[KeepNoPayload],
	}}
}

// DefaultUDPIdle is how long a session of UDP may be silent where nothing else is set: it lies between the kernel's for
// a flow without an answer (30 s) and for a stream (120 s).
const DefaultUDPIdle = time.Minute

// DefaultDeadPeer is how long a peer's host may be without an answer where nothing else is set.
const DefaultDeadPeer = 3 * time.Minute

// RemovedEndpoint says what happens to the connections of an endpoint that was removed, or is neither ready nor
// serving.
type RemovedEndpoint struct {
	Do    RemovedAction
	After time.Duration // of ResetConnections
}

// RemovedAction is which of them.
type RemovedAction uint8

// The actions.
const (
	RemovedDefault   RemovedAction = iota // the daemon's setting
	KeepConnections                       // they go on
	CloseWhenIdle                         // they are closed as soon as they are quiet
	ResetConnections                      // they are reset some time later
)

const (
	keepWord       = "keep"
	closeWord      = "close-when-idle"
	resetAfterWord = "reset-after="
)

// String is as settings write it.
func (r RemovedEndpoint) String() string {
	switch r.Do {
	case KeepConnections:
		return keepWord
	case CloseWhenIdle:
		return closeWord
	case ResetConnections:
		return resetAfterWord + r.After.String()
	}
	return ""
}

// Removals says what happens to connections of removed endpoints.
type Removals struct{ Default RemovedEndpoint }

// Form implements Value.
func (v Removals) Form() string {
	return keepWord + ", " + closeWord + ", or " + resetAfterWord + "TIME with a time from 0 to 1000h, such as 30s"
}

// Read implements Value.
func (v Removals) Read(text string, port *Port) bool {
	switch after, is := strings.CutPrefix(text, resetAfterWord); {
	case is:
		t, ok := readTime(after)
		if ok {
			port.Policy.Removed = RemovedEndpoint{ResetConnections, t}
		}
		return ok
	case text == keepWord:
		port.Policy.Removed = RemovedEndpoint{Do: KeepConnections}
	case text == closeWord:
		port.Policy.Removed = RemovedEndpoint{Do: CloseWhenIdle}
	default:
		return false
	}
	return true
}

func (v Removals) setDefault(port *Port) { port.Policy.Removed = v.Default }

// Age is how old connections may become. Each draws its own, up to Jitter percent less or more.
type Age struct {
	Time   time.Duration // Never; 0: it is not set
	Jitter int
}

// String is as settings write it.
func (a Age) String() string {
	switch {
	case a.Time <= 0:
		return "0s"
	case a.Jitter == 0:
		return a.Time.String()
	}
	return fmt.Sprintf("%s±%d%%", a.Time, a.Jitter)
}

// Ages is an age with its jitter, such as 10m±20%. None is the default.
type Ages struct{ Part func(*Port) *Age }

// The least age and the greatest jitter are bounds on mistakes.
const (
	leastAge  = time.Second
	maxJitter = 50
)

// Form implements Value.
func (v Ages) Form() string {
	return fmt.Sprintf("a time from 1s to 1000h, and perhaps a jitter up to %d %%, such as 10m±20%% or 10m+-20%%, "+
		"or 0 for never", maxJitter)
}

// Read implements Value.
func (v Ages) Read(text string, port *Port) bool {
	at, jitter, jitters := strings.Cut(strings.Replace(text, "+-", "±", 1), "±")
	t, ok := readTime(strings.TrimSpace(at))
	a := Age{Time: t}
	switch {
	case !ok || t > 0 && t < leastAge || t == 0 && jitters:
		return false
	case t == 0:
		a.Time = Never
	case jitters:
		jitter = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(jitter), "%"))
		n, err := strconv.ParseUint(jitter, 10, 31)
		if err != nil || n > maxJitter {
			return false
		}
		a.Jitter = int(n)
	}
	*v.Part(port) = a
	return true
}

func (v Ages) setDefault(port *Port) { *v.Part(port) = Age{Time: Never} }

// Draw is the age of one connection, by a number that is its own.
func (a Age) Draw(own uint64) time.Duration {
	own ^= own >> 33 // the finalizer of MurmurHash3: numbers in a row become independent of each other
	own *= 0xff51afd7ed558ccd
	own ^= own >> 33
	own *= 0xc4ceb9fe1a85ec53
	own ^= own >> 33
	span := int64(a.Time) / 100 * int64(a.Jitter)
	if span == 0 {
		return a.Time
	}
	return a.Time - time.Duration(span) + time.Duration(own%uint64(2*span+1))
}

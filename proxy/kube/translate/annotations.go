package translate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/proxy/service"
)

// annotationPrefix begins the names of the annotations by which a Service says how it is to be carried.
const annotationPrefix = "portald.io/"

// Names of those annotations, without the prefix.
const (
	noteMode            = "mode"
	noteConnectTimeouts = "connect-timeouts"
	noteRetries         = "retries"
	noteIdle            = "idle-timeout"
	noteHalfClose       = "half-close-timeout"
	noteUDPIdle         = "udp-timeout"
	noteMaxConnections  = "max-connections"
	noteClientAddress   = "client-address"
)

// annotated is what the annotations of a Service say.
type annotated struct {
	mode   service.Mode
	policy service.Policy
	dials  int // by noteRetries; 0 when that is not said
}

// annotationsOf reads the annotations. One that is bad is as if it were not there.
func annotationsOf(annotations map[string]string, opts Options, on objectReport) annotated {
	var a annotated
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, ours := strings.CutPrefix(key, annotationPrefix)
		if !ours {
			continue
		}
		if advice := a.read(name, strings.TrimSpace(annotations[key])); advice != "" {
			on.add(annotationField(name), annotations[key], advice)
		}
	}
	if a.dials > 0 {
		a.policy.ConnectTimeouts = repeated(a.policy.ConnectTimeouts, opts.ConnectTimeouts, a.dials)
	}
	return a
}

// annotationField is where an annotation stands in an object.
func annotationField(name string) string {
	return "metadata.annotations[" + annotationPrefix + name + "]"
}

// policyFor is the policy as far as a port can keep to it.
func policyFor(port service.PortName, policy service.Policy, on objectReport) service.Policy {
	if policy.ClientAddress == service.AddressProxyV2 && port.Protocol == service.UDP {
		on.add(annotationField(noteClientAddress), policy.ClientAddress.String(),
			fmt.Sprintf("cannot be done for UDP, node is used for port %q; write transparent, or node", port.Port))
		policy.ClientAddress = service.AddressNode
	}
	return policy
}

// read takes in one annotation. It returns why it is refused, empty when it is not.
func (a *annotated) read(name, value string) (advice string) {
	p := &a.policy
	switch name {
	case noteMode:
		var known bool
		if a.mode, known = service.ParseMode(value); !known {
			advice = "is no mode of a Service, the daemon's is used; write userspace or kernel"
		}
	case noteConnectTimeouts:
		p.ConnectTimeouts, advice = parseTimeouts(value)
	case noteRetries:
		a.dials, advice = parseNumber(value, maxDials-1, "retries after the first dial, such as 2")
		if advice == "" {
			a.dials++
		}
	case noteIdle:
		p.Idle, advice = parseTimeoutOrNever(value)
	case noteHalfClose:
		p.HalfClose, advice = parseTimeoutOrNever(value)
	case noteUDPIdle:
		p.UDPIdle, advice = parseTimeout(value)
	case noteMaxConnections:
		p.MaxConnections, advice = parseNumber(value, maxConnections, "connections, such as 500, or 0 for no limit")
		if advice == "" && p.MaxConnections == 0 {
			p.MaxConnections = -1
		}
	case noteClientAddress:
		var known bool
		if p.ClientAddress, known = service.ParseClientAddress(value); !known {
			advice = "is no way to tell the client's address, the daemon's setting is used; write node, transparent or proxy-v2"
		}
	default:
		advice = "is no setting and has no effect; known are " + strings.Join([]string{noteClientAddress, noteConnectTimeouts,
			noteHalfClose, noteIdle, noteMaxConnections, noteMode, noteRetries, noteUDPIdle}, ", ")
	}
	return advice
}

// Bounds that no sensible Service comes near.
const (
	maxDials       = 16
	maxConnections = 1 << 30
	maxTimeout     = 1000 * time.Hour
)

// repeated are as many timeouts as there are dials: those given, else the daemon's, the last of them as often as needed.
func repeated(given, daemons []time.Duration, dials int) []time.Duration {
	from := given
	if len(from) == 0 {
		from = daemons
	}
	out := make([]time.Duration, dials)
	for i := range out {
		out[i] = time.Second
		if len(from) > 0 {
			out[i] = from[min(i, len(from)-1)]
		}
	}
	return out
}

// parseTimeouts reads a list such as "250ms,1s".
func parseTimeouts(value string) (out []time.Duration, advice string) {
	for part := range strings.SplitSeq(value, ",") {
		t, advice := parseTimeout(strings.TrimSpace(part))
		if advice != "" || len(out) == maxDials {
			return nil, fmt.Sprintf("is no list of 1 to %d times above 0, the daemon's setting is used; "+
				"write one such as 250ms,1s", maxDials)
		}
		out = append(out, t)
	}
	return out, ""
}

// parseTimeout reads a time above 0.
func parseTimeout(value string) (time.Duration, string) {
	t, err := time.ParseDuration(value)
	if err != nil || t <= 0 || t > maxTimeout {
		return 0, "is no time above 0 and up to 1000h, the daemon's setting is used; write one such as 90s or 5m"
	}
	return t, ""
}

// parseTimeoutOrNever reads a time; 0 means never.
func parseTimeoutOrNever(value string) (time.Duration, string) {
	if t, err := time.ParseDuration(value); err == nil && t == 0 {
		return service.Never, ""
	}
	t, advice := parseTimeout(value)
	if advice != "" {
		advice += ", or 0 for never"
	}
	return t, advice
}

// parseNumber reads a number from 0 to limit.
func parseNumber(value string, limit int, what string) (int, string) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Sprintf("is no number from 0 to %d, the daemon's setting is used; write how many %s", limit, what)
	}
	return n, ""
}

package connlog

import (
	"cmp"
	"errors"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/proxy/record"
)

// key is a Key, and how its values are read: what they match, their text for a query, and as error what they must be.
type key struct {
	Key
	parse func(value string, now time.Time) (matches func(*Line) bool, text string, err error)
}

func keys() []key {
	return []key{
		{Key{"service", "SERVICE", "namespace/name, namespace/name:port or name; * stands for any part of a name"},
			words(IsService, func(l *Line) []string { return []string{l.Service} })},
		{Key{"namespace", "NAMESPACE", "the namespace of the Service"},
			words(IsWord, func(l *Line) []string { return []string{before(l.Service, "/")} })},
		{Key{"pod", "POD", "namespace/name or name of the client's or the endpoint's pod; * stands for any part of a name"},
			words(IsName, func(l *Line) []string { return []string{l.ClientPod, l.Pod} })},
		{Key{"from-pod", "POD", "the same of the client's pod"},
			words(IsName, func(l *Line) []string { return []string{l.ClientPod} })},
		{Key{"to-pod", "POD", "the same of the endpoint's pod"},
			words(IsName, func(l *Line) []string { return []string{l.Pod} })},
		{Key{"node", "NODE", "the node of the client's or the endpoint's pod"},
			words(IsWord, func(l *Line) []string { return []string{l.ClientNode, l.Node} })},
		{Key{"ip", "ADDRESS", "any address of the connection, as an address or a CIDR"}, addresses(allAddresses)},
		{Key{"from-ip", "ADDRESS", "the same of the client's address"},
			addresses(func(l *Line) []netip.AddrPort { return []netip.AddrPort{l.Client} })},
		{Key{"to-ip", "ADDRESS", "the same of the address that the client dialled, or the endpoint's"},
			addresses(func(l *Line) []netip.AddrPort { return append(endpoints(l), l.OriginalDst) })},
		{Key{"port", "PORT", "any port of the connection"}, parsePort},
		{Key{"endpoint", "ENDPOINT", "address, or address:port, of an endpoint that was dialled"}, parseEndpoint},
		{Key{"outcome", "OUTCOME", "one of the outcomes in docs/records.md; failed: any but ok and max_age"}, parseOutcome},
		{Key{"attempts", "NUMBER", "how many dials there were: 2, '>1', '>=2', '<2' or '<=1'"}, parseAttempts},
		{Key{"proto", "PROTOCOL", "tcp, udp or sctp"},
			oneOf(func(l *Line) string { return l.Protocol }, "tcp", "udp", "sctp")},
		{Key{"carried-by", "CARRIER", "userspace or kernel"},
			oneOf(func(l *Line) string { return string(l.CarriedBy) }, string(record.Userspace), string(record.Kernel))},
		{Key{"since", "TIME", "open at that time or later: RFC 3339, a time of day (UTC), or a duration back from now, " +
			"such as 5m"}, parseSince},
		{Key{"until", "TIME", "begun at that time or earlier"}, parseUntil},
	}
}

// allAddresses returns the addresses of the client, the frontend, this proxy and all endpoints that were dialled.
func allAddresses(l *Line) []netip.AddrPort {
	return append(endpoints(l), l.Client, l.OriginalDst, l.Proxy)
}

// endpoints are those that were dialled.
func endpoints(l *Line) []netip.AddrPort {
	out := []netip.AddrPort{l.Endpoint}
	for _, a := range l.Attempts {
		out = append(out, a.Endpoint)
	}
	return out
}

func before(s, separator string) string {
	s, _, _ = strings.Cut(s, separator)
	return s
}

// words reads a pattern of path.Match, for what is tells to match one of the words.
func words(is func(pattern, word string) bool, of func(*Line) []string) func(string, time.Time) (
	func(*Line) bool, string, error) {
	return func(value string, _ time.Time) (func(*Line) bool, string, error) {
		if _, err := path.Match(value, ""); err != nil || value == "" {
			return nil, "", errors.New("a name, in which * stands for any part")
		}
		return func(l *Line) bool {
			return slices.ContainsFunc(of(l), func(word string) bool { return is(value, word) })
		}, value, nil
	}
}

func addresses(of func(*Line) []netip.AddrPort) func(string, time.Time) (func(*Line) bool, string, error) {
	return func(value string, _ time.Time) (func(*Line) bool, string, error) {
		prefix, err := parsePrefix(value)
		if err != nil {
			return nil, "", errors.New("an address or a CIDR")
		}
		within := func(a netip.AddrPort) bool { return prefix.Contains(a.Addr().Unmap().WithZone("")) }
		return func(l *Line) bool { return slices.ContainsFunc(of(l), within) }, value, nil
	}
}

// parsePrefix reads a CIDR, or an address as the CIDR of it alone.
func parsePrefix(value string) (netip.Prefix, error) {
	if strings.Contains(value, "/") {
		return netip.ParsePrefix(value)
	}
	a, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Prefix{}, err
	}
	return a.Unmap().Prefix(a.Unmap().BitLen())
}

func parsePort(value string, _ time.Time) (func(*Line) bool, string, error) {
	port, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return nil, "", errors.New("a port")
	}
	is := func(a netip.AddrPort) bool { return a.IsValid() && a.Port() == uint16(port) }
	return func(l *Line) bool { return slices.ContainsFunc(allAddresses(l), is) }, value, nil
}

func parseEndpoint(value string, _ time.Time) (func(*Line) bool, string, error) {
	var is func(netip.AddrPort) bool
	if whole, err := netip.ParseAddrPort(value); err == nil {
		is = func(a netip.AddrPort) bool { return a == whole }
	} else if addr, err := netip.ParseAddr(value); err == nil {
		is = func(a netip.AddrPort) bool { return a.Addr() == addr }
	} else {
		return nil, "", errors.New("an address, or address:port")
	}
	return func(l *Line) bool { return slices.ContainsFunc(endpoints(l), is) }, value, nil
}

func parseOutcome(value string, _ time.Time) (func(*Line) bool, string, error) {
	if value == "failed" {
		return func(l *Line) bool { return l.Outcome != "" && !l.Outcome.Well() }, value, nil
	}
	if !slices.Contains(record.Outcomes(), record.Outcome(value)) {
		var all []string
		for _, o := range record.Outcomes() {
			all = append(all, string(o))
		}
		return nil, "", errors.New("failed, or one of " + strings.Join(all, ", "))
	}
	return func(l *Line) bool { return string(l.Outcome) == value }, value, nil
}

func parseAttempts(value string, _ time.Time) (func(*Line) bool, string, error) {
	digits := strings.TrimLeft(value, "<=>")
	n, err := strconv.Atoi(digits)
	var is func(order int) bool
	switch operator := strings.TrimSuffix(value, digits); operator {
	case "", "=":
		is = func(order int) bool { return order == 0 }
	case ">":
		is = func(order int) bool { return order > 0 }
	case ">=":
		is = func(order int) bool { return order >= 0 }
	case "<":
		is = func(order int) bool { return order < 0 }
	case "<=":
		is = func(order int) bool { return order <= 0 }
	}
	if err != nil || n < 0 || is == nil {
		return nil, "", errors.New("a number, after >, >=, < or <= if it is a bound")
	}
	return func(l *Line) bool { return is(cmp.Compare(l.Dials(), n)) }, value, nil
}

func oneOf(of func(*Line) string, all ...string) func(string, time.Time) (func(*Line) bool, string, error) {
	return func(value string, _ time.Time) (func(*Line) bool, string, error) {
		if !slices.Contains(all, value) {
			return nil, "", errors.New("one of " + strings.Join(all, ", "))
		}
		return func(l *Line) bool { return of(l) == value }, value, nil
	}
}

func parseSince(value string, now time.Time) (func(*Line) bool, string, error) {
	t, err := ParseTime(value, now)
	return func(l *Line) bool { return !l.End().Before(t) }, t.Format(time.RFC3339Nano), err
}

func parseUntil(value string, now time.Time) (func(*Line) bool, string, error) {
	t, err := ParseTime(value, now)
	return func(l *Line) bool { return !l.Time.After(t) }, t.Format(time.RFC3339Nano), err
}

// ParseTime reads a time of RFC 3339, a time of day in UTC, of which the last one is meant, or a duration back from
// now.
func ParseTime(value string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(value); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
		return t, nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, value); err == nil {
			return lastAt(t, now.UTC()), nil
		}
	}
	return time.Time{}, errors.New("a time such as 2026-11-21T03:12:00Z or 03:12 (UTC), or a duration back from now " +
		"such as 5m")
}

// lastAt is the last time before now with this time of day.
func lastAt(t, now time.Time) time.Time {
	last := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	if last.After(now) {
		last = last.AddDate(0, 0, -1)
	}
	return last
}

package config

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/secret"
)

// rule returns what a value must be; empty: the value is valid.
type rule func(value any) string

func oneOf(words ...string) rule {
	last := len(words) - 1
	advice := "must be " + words[last]
	if last > 0 {
		advice = "must be " + strings.Join(words[:last], ", ") + " or " + words[last]
	}
	return func(v any) string {
		if !slices.Contains(words, text(v)) {
			return advice
		}
		return ""
	}
}

// optional allows an empty text.
func optional(must rule) rule {
	return func(v any) string {
		if text(v) == "" {
			return ""
		}
		if advice := must(v); advice != "" {
			return advice + ", or be omitted"
		}
		return ""
	}
}

// text is a value whose type is a kind of string, or a secret.
func text(v any) string {
	if s, ok := v.(secret.Secret); ok {
		return s.Reveal()
	}
	return reflect.ValueOf(v).String()
}

// amount is a value whose type is a kind of number or time.
func amount(v any) float64 {
	if d, ok := v.(metav1.Duration); ok {
		return float64(d.Duration)
	}
	return reflect.ValueOf(v).Convert(reflect.TypeFor[float64]()).Float()
}

// form is a text that a setting of Services takes.
func form(of service.Value) rule {
	return func(v any) string {
		if !of.Read(text(v), &service.Port{}) {
			return "must be " + of.Form()
		}
		return ""
	}
}

func aboveZero(v any) string {
	if amount(v) <= 0 {
		return "must be above 0"
	}
	return ""
}

func notNegative(v any) string {
	if amount(v) < 0 {
		return "must not be negative"
	}
	return ""
}

func atLeast(least time.Duration) rule {
	return func(v any) string {
		if amount(v) < float64(least) {
			return "must be " + least.String() + " or more"
		}
		return ""
	}
}

func between(first, last float64) rule {
	return func(v any) string {
		if n := amount(v); n < first || n > last {
			return fmt.Sprintf("must be from %v to %v", first, last)
		}
		return ""
	}
}

func notBlank(v any) string {
	if strings.TrimSpace(text(v)) == "" {
		return "must not be blank"
	}
	return ""
}

// maxSocket leaves room in the 107 bytes that the path of a socket may have: it is made in a folder, and then moved.
const maxSocket = 90

func adminPath(v any) string {
	if s := text(v); !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, `\\.\pipe\`) || len(s) > maxSocket {
		return fmt.Sprintf("must be an absolute path of at most %d bytes, or on Windows a named pipe, as in %s", maxSocket,
			adminsocket.DefaultPipe)
	}
	return ""
}

func cidr(v any) string {
	if _, err := parseCIDR(text(v)); err != nil {
		return "must be a CIDR, as in 192.0.2.0/24 or 2001:db8::/64"
	}
	return ""
}

// cidrPair is empty, a CIDR, or two of different families with a comma between.
func cidrPair(v any) string {
	var families []bool
	for s := range strings.SplitSeq(text(v), ",") {
		p, err := parseCIDR(s)
		if err != nil || slices.Contains(families, p.Addr().Is6()) {
			return optional(func(any) string { return "must be a CIDR, or an IPv4 and an IPv6 one with a comma between" })(v)
		}
		families = append(families, p.Addr().Is6())
	}
	return ""
}

func nodePortAddress(v any) string {
	if word := text(v); slices.Contains([]string{"primary", "localhost", "all"}, word) || cidr(word) == "" {
		return ""
	}
	return "must be a CIDR, as in 192.0.2.0/24 or 2001:db8::/64, or primary, localhost or all"
}

func address(v any) string {
	if _, err := parseAddr(text(v)); err != nil {
		return "must be an IP address, as in 192.0.2.7"
	}
	return ""
}

// nodeAddress is one that others can use: a zone is a name on its own host.
func nodeAddress(v any) string {
	if addr, err := parseAddr(text(v)); err != nil || addr.Zone() != "" {
		return "must be an IP address without a zone, as in 192.0.2.7"
	}
	return ""
}

func hostAddress(v any) string {
	addr, err := parseAddr(strings.TrimSpace(text(v)))
	if err != nil || addr.Zone() != "" || addr.IsUnspecified() || addr.IsLoopback() {
		return "must be an address of this node, as in 192.0.2.7"
	}
	return ""
}

// serverAddress is empty, an address with a port, or an address alone, for the server's default port.
func serverAddress(v any) string {
	if text(v) == "" || address(v) == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(text(v))
	_, noPort := strconv.ParseUint(port, 10, 16)
	if err != nil || noPort != nil || host != "" && address(host) != "" {
		return "must be ADDRESS:PORT, as in 0.0.0.0:10256"
	}
	return ""
}

func portRange(v any) string {
	if _, err := parsePortRange(text(v)); err != nil {
		return "must be FIRST-LAST, two ports from 1 to 65535, as in 11000-29999"
	}
	return ""
}

// optionalPortRange also allows kube-proxy's values for "any port".
func optionalPortRange(v any) string {
	if anyPort(text(v)) {
		return ""
	}
	return portRange(v)
}

func anyPort(s string) bool { return slices.Contains([]string{"", "0", "0-0"}, strings.TrimSpace(s)) }

// parsePortRange reads FIRST-LAST, FIRST+MORE or a single port.
func parsePortRange(s string) (inet.PortRange, error) {
	r, err := utilnet.ParsePortRange(s)
	if err != nil {
		return inet.PortRange{}, err
	}
	if r.Base < 1 || r.Size < 1 {
		return inet.PortRange{}, fmt.Errorf("no port from 1 to 65535: %s", s)
	}
	return inet.PortRange{First: uint16(r.Base), Last: uint16(r.Base + r.Size - 1)}, nil
}

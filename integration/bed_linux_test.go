package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

// The addresses of the Service that most tests have.
const (
	ip4, ip6 = "10.96.0.10", "fd00:10:96::10"
	nodePort = 30080
)

// bed is what one test has for itself: a network of two clients, a node and three pods, and a folder.
type bed struct {
	*testing.T
	net    *topology.Net
	node   *topology.Host
	client *topology.Host // the first one
	dir    string
}

// networks numbers the networks, whose names differ.
var networks atomic.Int32

// newBed makes the test run beside others, in a network of its own.
func newBed(t *testing.T, commands ...string) *bed {
	t.Helper()
	if !inGuest {
		commands = append(commands, "go")
	}
	topology.Require(t, append([]string{"iptables-save", "ip6tables-save", "ip"}, commands...)...)
	t.Parallel()
	name := fmt.Sprintf("n%d-", networks.Add(1))
	net, err := topology.New(t.Context(), topology.Options{Clients: 2, Pods: 3, IPv6: true, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bed{T: t, net: net, node: net.Node, client: net.Client(0), dir: t.TempDir()}
	b.routeOut()
	return b
}

// routeOut gives the node a way out, without which it would not even try to reach service addresses. It leads to the
// second client, which drops what comes: were it the first, the node would tell that one to go there by itself. And the
// node refuses every client that asks: by default the kernel says so once a second.
func (b *bed) routeOut() {
	b.Helper()
	out := b.net.Client(1)
	b.on(b.node, "ip", "route", "add", "default", "via", out.IPv4.String())
	b.on(b.node, "ip", "-6", "route", "add", "default", "via", out.IPv6.String())
	for _, name := range []string{"ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"} {
		if err := b.node.Sysctl(name, "0"); err != nil {
			b.Fatal(err)
		}
	}
}

// on runs a command on a host, which must succeed, and returns its standard output.
func (b *bed) on(h *topology.Host, name string, args ...string) string {
	b.Helper()
	out, err := b.try(h, name, args...)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// try runs a command on a host for at most half a minute. Its error has what the command said.
func (b *bed) try(h *topology.Host, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out, said bytes.Buffer
	cmd := h.Command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(), said.String())
	}
	return out.String(), nil
}

// volatile is what iptables-save prints differently each time: comments with the hour, and counters. An empty table is
// as good as none: the tools make it where there is none, and nobody can tell who was first.
var (
	volatile = regexp.MustCompile(`(?m)^#.*\n| \[\d+:\d+\]`)
	empty    = regexp.MustCompile(`(?m)^\*\w+\n(:[A-Z]+ ACCEPT\n)*COMMIT\n`)
)

// rules is all that iptables and ip6tables hold on the node, of the default variant or another.
func (b *bed) rules(variant ...string) string {
	b.Helper()
	infix := strings.Join(append(variant, "save"), "-")
	text := b.on(b.node, "iptables-"+infix) + b.on(b.node, "ip6tables-"+infix)
	return empty.ReplaceAllString(volatile.ReplaceAllString(text, ""), "")
}

// write puts text into a file of the bed's folder as a whole, by renaming, and returns its path.
func (b *bed) write(name string, text any) string {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path+".new", fmt.Append(nil, text), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		b.Fatal(err)
	}
	return path
}

// endpoints are the pods of these numbers.
func (b *bed) endpoints(pods ...int) []endpoint {
	var out []endpoint
	for _, i := range pods {
		h := b.net.Pod(i)
		out = append(out, endpoint{pod: podName(i), v4: h.IPv4, v6: h.IPv6})
	}
	return out
}

func podName(i int) string { return fmt.Sprint("pod", i) }

// cart is a Service of both families and protocols, one port number for both, behind which are these pods.
func (b *bed) cart(pods ...int) svc {
	return svc{
		name: "cart", kind: "NodePort", ips: []string{ip4, ip6}, pods: b.endpoints(pods...),
		ports: []port{{"http", "TCP", 80, nodePort, podPort}, {"talk", "UDP", 80, nodePort, podPort}},
	}
}

// eventually waits for something that takes a moment.
func (b *bed) eventually(what string, ok func() bool) {
	b.Helper()
	limit := unhurried(10 * time.Second)
	if !within(limit, ok) {
		b.Fatalf("waited %s for %s", limit, what)
	}
}

func within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

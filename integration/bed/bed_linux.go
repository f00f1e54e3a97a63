package bed

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
	"github.com/portald/portald/integration/winnode"
)

// Addresses and node port of cart, the Service that most tests use.
const (
	IP4, IP6 = "10.96.0.10", "fd00:10:96::10"
	NodePort = 30080
)

// Bed is the private environment of one test: a network of two clients, a node and three pods, and a directory.
type Bed struct {
	*testing.T
	Net    *topology.Net
	Node   *topology.Host
	Client *topology.Host // the first one
	Dir    string

	Windows *winnode.Node // the system of the node; nil: Linux
	Program string        // what the node runs in place of Portald, if not empty
}

// Networks numbers the networks, so that their names differ.
var Networks atomic.Int32

// New creates a network for the test and marks the test as parallel. The test is skipped or fails if one of the
// commands is missing.
func New(t *testing.T, commands ...string) *Bed {
	t.Helper()
	if !InVM {
		commands = append(commands, "go")
	}
	topology.Require(t, append([]string{"iptables-save", "ip6tables-save", "ip"}, commands...)...)
	t.Parallel()
	name := fmt.Sprintf("n%d-", Networks.Add(1))
	net, err := topology.New(t.Context(), topology.Options{Clients: 2, Pods: 3, IPv6: true, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &Bed{T: t, Net: net, Node: net.Node, Client: net.Client(0), Dir: t.TempDir()}
	b.RouteOut()
	b.Install()
	return b
}

// RouteOut adds a default route to the node: without a route the node would not send packets to service addresses. The
// gateway is the second client, which drops them; with the first client as gateway the node would send it ICMP
// redirects. RouteOut also turns off the ICMP rate limit (by default one error a second), so that every client sees
// that it is rejected.
func (b *Bed) RouteOut() {
	b.Helper()
	out := b.Net.Client(1)
	b.On(b.Node, "ip", "route", "add", "default", "via", out.IPv4.String())
	b.On(b.Node, "ip", "-6", "route", "add", "default", "via", out.IPv6.String())
	for _, name := range []string{"ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"} {
		if err := b.Node.Sysctl(name, "0"); err != nil {
			b.Fatal(err)
		}
	}
}

// On runs a command on a host and returns its standard output. A failure of the command ends the test.
func (b *Bed) On(h *topology.Host, name string, args ...string) string {
	b.Helper()
	out, err := b.Try(h, name, args...)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// Try runs a command on a host, for twice Patience at most. Its error contains the command's output.
func (b *Bed) Try(h *topology.Host, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := h.Command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(),
			errOut.String())
	}
	return out.String(), nil
}

// volatile matches the parts of iptables-save's output that differ each time: comments with the time, and counters.
// empty matches a table without rules, which counts as no table: the tools create one when they list it.
var (
	volatile = regexp.MustCompile(`(?m)^#.*\n| \[\d+:\d+\]`)
	empty    = regexp.MustCompile(`(?m)^\*\w+\n(:[A-Z]+ ACCEPT\n)*COMMIT\n`)
)

// Rules returns all rules of iptables and ip6tables on the node, of the default variant or the given one.
func (b *Bed) Rules(variant ...string) string {
	b.Helper()
	infix := strings.Join(append(variant, "save"), "-")
	text := b.On(b.Node, "iptables-"+infix) + b.On(b.Node, "ip6tables-"+infix)
	return empty.ReplaceAllString(volatile.ReplaceAllString(text, ""), "")
}

// WriteManifest replaces a file of the bed's directory atomically, by rename, and returns its path.
func (b *Bed) WriteManifest(name string, text any) string {
	b.Helper()
	path := filepath.Join(b.Dir, name)
	if err := os.WriteFile(path+".new", fmt.Append(nil, text), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		b.Fatal(err)
	}
	return path
}

// Endpoints lists the pods with these numbers as endpoints.
func (b *Bed) Endpoints(pods ...int) []Endpoint {
	var out []Endpoint
	for _, i := range pods {
		h := b.Net.Pod(i)
		out = append(out, Endpoint{Pod: PodName(i), V4: h.IPv4, V6: h.IPv6})
	}
	return out
}

// PodName is the name of pod i.
func PodName(i int) string { return fmt.Sprint("pod", i) }

// Cart is a dual-stack Service of type NodePort with these pods as endpoints. TCP and UDP share one port number.
func (b *Bed) Cart(pods ...int) Service {
	return Service{
		Name: "cart", Kind: "NodePort", IPs: []string{IP4, IP6}, Pods: b.Endpoints(pods...),
		Ports: []Port{NewPort("http", "TCP", 80, NodePort, PodPort), NewPort("talk", "UDP", 80, NodePort, PodPort)},
	}
}

// Eventually waits until ok returns true; the test fails when Patience ends.
func (b *Bed) Eventually(what string, ok func() bool) {
	b.Helper()
	if !Within(Patience, ok) {
		b.Fatalf("waited %s for %s", Patience, what)
	}
}

// Within polls ok until it returns true, at most for the time limit, and tells whether it did.
func Within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Must ends the test if there is an error.
func (b *Bed) Must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// WriteFile writes a file in place, without a rename, as some editors do.
func (b *Bed) WriteFile(path string, text any) {
	b.Helper()
	b.Must(os.MkdirAll(filepath.Dir(path), 0o700))
	b.Must(os.WriteFile(path, fmt.Append(nil, text), 0o600))
}

// Ruleset returns the whole nftables ruleset of the node, which includes the rules of iptables-nft.
func (b *Bed) Ruleset() string {
	b.Helper()
	return b.On(b.Node, "nft", "list", "ruleset")
}

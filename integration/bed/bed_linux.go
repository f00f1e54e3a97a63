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
)

// The addresses of the Service that most tests have.
const (
	IP4, IP6 = "10.96.0.10", "fd00:10:96::10"
	NodePort = 30080
)

// Bed is what one test has for itself: a network of two clients, a node and three pods, and a folder.
type Bed struct {
	*testing.T
	Net    *topology.Net
	Node   *topology.Host
	Client *topology.Host // the first one
	Dir    string
}

// Networks numbers the networks, whose names differ.
var Networks atomic.Int32

// New makes the test run beside others, in a network of its own.
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
	return b
}

// RouteOut gives the node a way out, without which it would not even try to reach service addresses. It leads to the
// second client, which drops what comes: were it the first, the node would tell that one to go there by itself. And the
// node refuses every client that asks: by default the kernel says so once a second.
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

// On runs a command on a host, which must succeed, and returns its standard output.
func (b *Bed) On(h *topology.Host, name string, args ...string) string {
	b.Helper()
	out, err := b.Try(h, name, args...)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// Try runs a command on a host for at most half a minute. Its error has what the command said.
func (b *Bed) Try(h *topology.Host, name string, args ...string) (string, error) {
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

// Rules is all that iptables and ip6tables hold on the node, of the default variant or another.
func (b *Bed) Rules(variant ...string) string {
	b.Helper()
	infix := strings.Join(append(variant, "save"), "-")
	text := b.On(b.Node, "iptables-"+infix) + b.On(b.Node, "ip6tables-"+infix)
	return empty.ReplaceAllString(volatile.ReplaceAllString(text, ""), "")
}

// WriteManifest puts text into a file of the bed's folder as a whole, by renaming, and returns its path.
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

// Endpoints are the pods of these numbers.
func (b *Bed) Endpoints(pods ...int) []Endpoint {
	var out []Endpoint
	for _, i := range pods {
		h := b.Net.Pod(i)
		out = append(out, Endpoint{Pod: PodName(i), V4: h.IPv4, V6: h.IPv6})
	}
	return out
}

func PodName(i int) string { return fmt.Sprint("pod", i) }

// Cart is a Service of both families and protocols, one port number for both, behind which are these pods.
func (b *Bed) Cart(pods ...int) Service {
	return Service{
		Name: "cart", Kind: "NodePort", IPs: []string{IP4, IP6}, Pods: b.Endpoints(pods...),
		Ports: []Port{NewPort("http", "TCP", 80, NodePort, PodPort), NewPort("talk", "UDP", 80, NodePort, PodPort)},
	}
}

// Eventually waits for something that takes a moment.
func (b *Bed) Eventually(what string, ok func() bool) {
	b.Helper()
	limit := VMTimeout(10 * time.Second)
	if !Within(limit, ok) {
		b.Fatalf("waited %s for %s", limit, what)
	}
}

func Within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func (b *Bed) Must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// WriteFile writes a file in place, as an editor may, without a rename.
func (b *Bed) WriteFile(path string, text any) {
	b.Helper()
	b.Must(os.MkdirAll(filepath.Dir(path), 0o700))
	b.Must(os.WriteFile(path, fmt.Append(nil, text), 0o600))
}

// Ruleset is all that nftables, and iptables by it, hold on the node.
func (b *Bed) Ruleset() string {
	b.Helper()
	return b.On(b.Node, "nft", "list", "ruleset")
}

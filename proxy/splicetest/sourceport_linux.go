package splicetest

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func sourcePortScenarios() []scenario {
	return []scenario{
		{name: "MoreConnectionsThanPorts", run: moreConnectionsThanPorts, needs: SourcePorts, scope: network},
		{name: "MoreTransparentConnectionsThanPorts", run: moreTransparentConnectionsThanPorts,
			needs: SourcePorts | ClientAddresses, scope: network},
		{name: "PortsBesideServers", run: portsBesideServers, needs: SourcePorts, scope: network},
		{name: "PortsRunOut", run: portsRunOut, needs: SourcePorts, scope: network},
	}
}

// Ports of these scenarios: the data path's, and the ports that the kernel chooses from. The kernel has its defaults
// otherwise.
const (
	fewFirst, fewLast = 12000, 12049
	few               = fewLast - fewFirst + 1
	kernelPorts       = "40000 40049"
)

func (c *cluster) fewPorts() {
	c.Helper()
	for name, want := range map[string]string{"tcp_tw_reuse": "2\n", "tcp_timestamps": "1\n"} {
		if got, err := os.ReadFile("/proc/sys/net/ipv4/" + name); err != nil || string(got) != want {
			c.Fatalf("%s is %q, not the default: %v", name, got, err)
		}
	}
	c.node.Must(func() error { return netnstest.Sysctl("net/ipv4/ip_local_port_range", kernelPorts) })
	c.client.Must(func() error { return netnstest.Sysctl("net/ipv4/tcp_tw_reuse", "1") })
}

// startOfFew is start on such a node.
func (c *cluster) startOfFew(opts splice.Options) *dataPath {
	c.Helper()
	c.fewPorts()
	opts.SourcePorts.Range = inet.PortRange{First: fewFirst, Last: fewLast}
	return c.start(opts)
}

// track has the node track connections, translate the packets that it sends, and let nothing in but replies and packets
// for listeners.
func (c *cluster) track() {
	c.Helper()
	for _, command := range []string{"iptables", "ip6tables"} {
		c.run(command+" -t nat -A POSTROUTING -o pod0 -j MASQUERADE",
			command+" -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
			command+" -A INPUT -i pod0 -p tcp -j DROP")
	}
}

// moreConnectionsThanPorts: one endpoint is served far more short connections than there are ports, through
// masquerading and a firewall that lets only answers in, and the host has all its own ports.
func moreConnectionsThanPorts(t *trial) {
	c := newCluster(t)
	c.track()
	manyShort(c, splice.Options{})
}

func moreTransparentConnectionsThanPorts(t *trial) {
	c := newCluster(t)
	c.routeReplies()
	manyShort(c, splice.Options{Policy: asClient, Returns: returns})
}

func manyShort(c *cluster, opts splice.Options) {
	opts.Warn = func(err error) { c.Error(err) }
	d := c.startOfFew(opts)
	for _, family := range inet.Families() {
		const times = 4 * few
		endpoint := c.podEcho(family)
		port := expose(d, service.Port{}, inet.TCP, family, toOne(endpoint))
		c.must(c.short(c.client, netip.AddrPortFrom(towardClient[family], port), times))
		for range times {
			if rec := d.record(); rec.Outcome != record.OutcomeOK || len(rec.Attempts) != 1 {
				c.Fatalf("record %+v", rec)
			}
		}
		c.must(c.short(c.node, endpoint, few*4/5)) // the host's own, to that endpoint
	}
}

// portsBesideServers: connections do not take the ports of servers of the host, and servers can be started at any port.
func portsBesideServers(t *trial) {
	const half = fewFirst + few/2
	c := newCluster(t)
	d := c.startOfFew(splice.Options{Warn: func(err error) { t.Error(err) }})
	c.occupy(fewFirst, half)
	port := expose(d, service.Port{}, inet.TCP, inet.IPv4, toOne(c.podEcho(inet.IPv4)))
	to := netip.AddrPortFrom(towardClient[inet.IPv4], port)
	t.must(c.short(c.client, to, 200))
	if n := c.open(to, 5); n < 5 { // open ones too
		t.Fatalf("%d connections are served", n)
	}
	c.occupy(half, fewLast+1)
	t.must(c.short(c.client, to, 20)) // from the kernel's ports: there is none left of ours
}

// occupy has a server listen at each of some ports of the node.
func (c *cluster) occupy(from, to uint16) {
	c.Helper()
	for port := from; port < to; port++ {
		c.must(c.listen(netip.AddrPortFrom(netip.IPv4Unspecified(), port), echo))
	}
}

// portsRunOut: connections that stay, more than there are ports, go on from the kernel's. That ports get few is
// reported before there are none.
func portsRunOut(t *trial) {
	c := newCluster(t)
	var mu sync.Mutex
	var reports []error
	d := c.startOfFew(splice.Options{Warn: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, err)
	}})
	endpoint := c.podEcho(inet.IPv4)
	port := expose(d, service.Port{}, inet.TCP, inet.IPv4, toOne(endpoint))
	const both = 2 * few
	if n := c.open(netip.AddrPortFrom(towardClient[inet.IPv4], port), 2*both); n < both*9/10 || n > both {
		t.Errorf("%d connections were served from %d ports", n, both)
	}
	mu.Lock()
	defer mu.Unlock()
	var crowded *splice.PortsError
	if len(reports) == 0 || !errors.As(reports[0], &crowded) || crowded.Endpoint != endpoint {
		t.Fatalf("reports %v, want first that ports get few", reports)
	}
	if !slices.ContainsFunc(reports, func(err error) bool { return errors.Is(err, unix.EADDRNOTAVAIL) }) {
		t.Errorf("reports %v", reports)
	}
}

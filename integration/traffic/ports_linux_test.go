package traffic

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// portald opens more short connections to one endpoint than it has source ports for it (TIME_WAIT), on a host with the
// kernel's default settings. Programs of the host keep their ephemeral ports, and servers of the host can bind to
// portald's former source ports.
func TestShortConnectionsOutnumberPorts(t *testing.T) {
	const first, last, spared = 12000, 12047, 12040 // ports from spared on are reserved by the host
	bed.NeedsLinux(t, "source ports are the system's")
	b := bed.New(t)
	if got := b.On(b.Node, "cat", "/proc/sys/net/ipv4/tcp_tw_reuse"); got != "2\n" {
		t.Fatalf("tcp_tw_reuse is %q, not the default", got)
	}
	b.Must(b.Node.Sysctl("ipv4/ip_local_port_range", "40000 40047"))
	b.Must(b.Node.Sysctl("ipv4/ip_local_reserved_ports", fmt.Sprintf("%d-%d", spared, last)))
	b.ServePods(0)
	d := b.Start(b.Cart(0), fmt.Sprintf("--proxy-port-range=%d-%d", first, last))
	for _, addr := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80)} {
		for i := range 3 * (last - first) {
			if _, err := bed.Ask(b.Client, "tcp", addr); err != nil {
				t.Fatalf("%s, connection %d: %v", addr, i, err)
			}
		}
	}
	for _, addr := range []string{bed.HostPort(b.Net.Pod(0).IPv4.String(), bed.PodPort),
		bed.HostPort(b.Net.Pod(0).IPv6.String(), bed.PodPort)} {
		for i := range 32 {
			c, err := b.Node.Dial(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatalf("the host's own connection %d to %s: %v", i, addr, err)
			}
			defer c.Close()
		}
	}
	if n := d.Metric("portald_crowded_dials_total"); n != 0 {
		t.Errorf("%v dials found all source ports in use", n)
	}
	for _, r := range d.Records() {
		if p := netip.MustParseAddrPort(r.Proxy).Port(); p < first || p >= spared {
			t.Fatalf("%s was dialled from port %d, want one of %d-%d", r.Endpoint, p, first, spared-1)
		}
	}
	started := 0
	for port := first; port <= last; port++ {
		if l, err := b.Node.Listen("tcp", fmt.Sprintf("[::]:%d", port)); err == nil {
			defer l.Close()
			started++
		}
	}
	if want := last - first + 1 - 2; started != want { // portald has one listener per family
		t.Errorf("%d servers of the host could be started, want %d", started, want)
	}
	if _, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil {
		t.Errorf("with servers on the other ports: %v", err)
	}
}

package modes

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// Of a pod that was on this node an endpoint is left that is not ready, and a pod of another node has its address by
// now. With a Local policy that other pod is another node's: the load balancer is told so, and no client is led there,
// by whose own address it could not be answered. The other way round it is this node's.
func TestLeftoverOfAPod(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		const healthPort = 32124
		b.ServePods(0)
		remote := b.Net.Client(1) // a host beside the node, which answers the client directly
		senders := sendersTo(b, remote)
		gone := "ready: false, serving: false, terminating: true"
		joined := func(h *topology.Host, leftOn, liveOn string) bed.Service {
			cart := b.Cart()
			cart.Kind, cart.Balancer = "LoadBalancer", []string{bed.Balancer4, bed.Balancer6}
			cart.Pods = []bed.Endpoint{
				{Pod: "gone", V4: h.IPv4, V6: h.IPv6, Conditions: gone, Node: leftOn},
				{Pod: "live", V4: h.IPv4, V6: h.IPv6, Node: liveOn},
			}
			return cart
		}
		local := func(s bed.Service) string {
			return strings.Replace(s.String(), "spec:\n", fmt.Sprintf("spec:\n  externalTrafficPolicy: Local\n  "+
				"internalTrafficPolicy: Local\n  healthCheckNodePort: %d\n", healthPort), 1)
		}
		frontends := []string{
			bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort(bed.Balancer4, 80),
			bed.HostPort(bed.Balancer6, 80), bed.HostPort(b.Node.IPv4.String(), bed.NodePort),
			bed.HostPort(b.Node.IPv6.String(), bed.NodePort),
		}
		wantHealth := func(code int, local string) {
			b.Helper()
			body, got := "", 0
			if !bed.Within(bed.AnswerTimeout, func() bool {
				got, body, _ = bed.Fetch(b.Client, bed.HostPort(b.Node.IPv4.String(), healthPort), "/")
				return got == code && strings.Contains(body, `"localEndpoints":`+local+",")
			}) {
				b.Errorf("the health check is %d %s, want %d with %s endpoints", got, body, code, local)
			}
		}

		d := b.Start(local(joined(remote, "here", "there")), m.Args...)
		wantHealth(http.StatusServiceUnavailable, "0")
		for _, network := range []string{"tcp", "udp"} {
			for _, to := range frontends {
				a, err := bed.AskWithin(bed.SilenceTimeout, b.Client, network, to)
				if err == nil || strings.Contains(err.Error(), "refused") {
					b.Errorf("%s %s: %q, %v, want silence: no endpoint is on this node", network, to, a.Pod, err)
				}
			}
		}
		for _, h := range []string{remote.IPv4.String(), remote.IPv6.String()} {
			a, err := bed.Ask(b.Client, "udp", bed.HostPort(h, bed.PodPort)) // behind all that came by the node
			b.Must(err)
			if from := senders(); len(from) != 1 || from[0] != a.Client.String() {
				b.Errorf("the pod of the other node was asked by %v, want by %v alone: clients were led there", from, a.Client)
			}
		}

		d.Apply(local(joined(b.Net.Pod(0), "there", "here")))
		wantHealth(http.StatusOK, "1")
		for _, network := range []string{"tcp", "udp"} {
			for _, to := range frontends {
				if a, err := bed.Ask(b.Client, network, to); err != nil || a.Pod != "pod0" {
					b.Errorf("%s %s: %q, %v, want pod0", network, to, a.Pod, err)
				}
			}
		}
	})
}

// sendersTo answers datagrams on a host as a pod does, and returns who has sent some since the last call.
func sendersTo(b *bed.Bed, h *topology.Host) (senders func() []string) {
	b.Helper()
	c, err := h.ListenPacket("udp", fmt.Sprintf("[::]:%d", bed.PodPort))
	b.Must(err)
	var mu sync.Mutex
	var from []string
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 100)
		for {
			_, sender, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			at := netip.MustParseAddrPort(sender.String())
			mu.Lock()
			from = append(from, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String())
			mu.Unlock()
			_, _ = c.WriteTo([]byte("remote"), sender)
		}
	})
	b.Cleanup(func() {
		c.Close()
		wg.Wait()
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		out := from
		from = nil
		return out
	}
}

package traffic

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// sendAs sends a UDP datagram from a host with any source address.
func sendAs(from *topology.Host, source, to netip.AddrPort, payload string) error {
	udp := make([]byte, 8+len(payload))
	binary.BigEndian.PutUint16(udp, source.Port())
	binary.BigEndian.PutUint16(udp[2:], to.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	copy(udp[8:], payload)
	var family int
	var sa unix.Sockaddr
	var packet []byte
	if to.Addr().Is6() {
		src, dst := source.Addr().As16(), to.Addr().As16()
		pseudo := []byte{0, 0, byte(len(udp) >> 8), byte(len(udp)), 0, 17}
		binary.BigEndian.PutUint16(udp[6:], checksum(src[:], dst[:], udp, pseudo))
		family, sa = unix.AF_INET6, &unix.SockaddrInet6{Addr: dst}
		packet = append(packet, 0x60, 0, 0, 0, byte(len(udp)>>8), byte(len(udp)), 17, 64)
		packet = append(append(append(packet, src[:]...), dst[:]...), udp...)
	} else {
		src, dst := source.Addr().As4(), to.Addr().As4()
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Addr: dst}
		length := 20 + len(udp)
		packet = append(packet, 0x45, 0, byte(length>>8), byte(length), 0, 0, 0, 0, 64, 17, 0, 0) // the kernel sums it
		packet = append(append(append(packet, src[:]...), dst[:]...), udp...)
	}
	return from.Do(func() error {
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, packet, 0, sa)
	})
}

// checksum is that of the Internet.
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, p := range parts {
		for i := 0; i < len(p); i += 2 {
			word := uint32(p[i]) << 8
			if i+1 < len(p) {
				word |= uint32(p[i+1])
			}
			sum += word
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// witness is a pod that notes from which address each payload came, and how often, and sends it back.
type witness struct {
	mu   sync.Mutex
	from map[string]netip.Addr
	n    map[string]int
}

func watchUDP(b *bed.Bed, h *topology.Host, port int) *witness {
	b.Helper()
	w := &witness{from: map[string]netip.Addr{}, n: map[string]int{}}
	c, err := h.ListenPacket("udp", fmt.Sprintf("[::]:%d", port))
	b.Must(err)
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			w.mu.Lock()
			w.from[string(buf[:n])] = netip.MustParseAddrPort(from.String()).Addr().Unmap()
			w.n[string(buf[:n])]++
			w.mu.Unlock()
			_, _ = c.WriteTo(buf[:n], from) // the client may be nobody
		}
	})
	b.Cleanup(func() { c.Close(); wg.Wait() })
	return w
}

func (w *witness) saw(payload string) (from netip.Addr, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.from[payload], w.n[payload]
}

// Who lies about the address of a datagram has an endpoint see that address only where its packets could come from:
// not that of a pod, of the node, of an endpoint or of nobody. No answer comes back as a question, and clients that do
// not lie are served as before. The node takes what a kernel can be told to take: other nodes drop more.
func TestHostileSourcesWithTransparent(t *testing.T) {
	bed.NeedsLinux(t, "transparent sockets are of Linux")
	const asClient = "--client-address=transparent"
	for name, args := range map[string][]string{
		"epoll": {asClient}, "goroutine": {"--engine=goroutine", asClient}, "nftables": {"--writer=nftables", asClient},
		"as the node": {},
	} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			for _, each := range []string{"all", "default", "pod0", "pod1", "pod2"} {
				for _, sysctl := range []string{"rp_filter=0", "accept_local=1", "route_localnet=1", "log_martians=0"} {
					what, value, _ := strings.Cut(sysctl, "=")
					b.Must(b.Node.Sysctl("ipv4/conf/"+each+"/"+what, value))
				}
			}
			pod := watchUDP(b, b.Net.Pod(0), bed.PodPort)
			b.ServePods(1)
			other := b.Cart(0)
			other.Name, other.Kind, other.IPs = "other", "ClusterIP", []string{"10.96.7.7", "fd00:10:96::7:7"}
			other.Ports = []bed.Port{bed.NewPort("talk", "UDP", 80, 0, bed.PodPort)}
			d := b.Start(b.Cart(0).String()+other.String(), append(args, "--udp-timeout=500ms")...)
			node, pod0, pod1, pod2, client := b.Node, b.Net.Pod(0), b.Net.Pod(1), b.Net.Pod(2), b.Client
			range4, range6 := b.Net.PodRange()
			shown := range4.Addr().Next() // how the node shows itself to pods
			honest := map[netip.Addr]bool{shown: true, range6.Addr().Next(): true}

			type lie struct {
				from   *topology.Host
				source string
				shows  bool // the endpoint sees it
			}
			lies := []lie{
				{client, client.IPv4.String(), true}, {pod1, pod1.IPv4.String(), true}, // no lies
				{client, pod1.IPv4.String(), false}, {client, pod0.IPv4.String(), false}, {client, node.IPv4.String(), false},
				{client, shown.String(), false}, {client, "127.0.0.1", false}, {client, "127.9.9.9", false},
				{client, "0.1.2.3", false}, {client, "255.255.255.255", false},
				{client, "192.168.50.255", false}, {client, "224.0.0.1", false}, {client, "240.0.0.1", false},
				{client, "169.254.7.7", false},
				{pod1, pod2.IPv4.String(), false}, {pod1, pod0.IPv4.String(), false}, {pod1, client.IPv4.String(), false},
				{pod1, node.IPv4.String(), false}, {pod1, shown.String(), false}, {pod1, bed.IP4, false},
				{pod1, "127.0.0.1", false}, {pod1, "203.0.113.9", false}, {pod1, "10.96.7.7", false},
				{pod0, pod1.IPv4.String(), false}, {pod0, pod0.IPv4.String(), false},

				{client, client.IPv6.String(), true}, {pod1, pod1.IPv6.String(), true}, // no lies
				{client, pod1.IPv6.String(), false}, {client, pod0.IPv6.String(), false}, {client, node.IPv6.String(), false},
				{client, "::1", false}, {client, "::", false}, {client, "ff02::1", false}, {client, "fe80::7", false},
				{client, "::ffff:" + pod1.IPv4.String(), false}, {client, "::ffff:127.0.0.1", false},
				{pod1, pod2.IPv6.String(), false}, {pod1, client.IPv6.String(), false}, {pod1, node.IPv6.String(), false},
				{pod1, bed.IP6, false}, {pod1, "2001:db8::9", false}, {pod1, "fd00:10:96::7:7", false},
			}
			payload := func(l lie, port uint16) string { return fmt.Sprint(l.source, " from ", l.from.Name, " port ", port) }
			// Some with a port of their own: a datagram belongs to the session of its addresses, whoever sends it.
			ports := func(i int) []uint16 {
				if own := uint16(40_000 + i); lies[i].shows {
					return []uint16{own}
				} else {
					return []uint16{own, 80, bed.NodePort, 11000, 11001, 11002, 11003}
				}
			}
			for i, l := range lies {
				source := netip.MustParseAddr(l.source)
				to := netip.AddrPortFrom(node.IPv4, bed.NodePort)
				if l.from != client {
					to = netip.MustParseAddrPort(bed.HostPort(bed.IP4, 80))
				}
				if source.Is6() {
					to = netip.AddrPortFrom(node.IPv6, bed.NodePort)
				}
				for _, port := range ports(i) {
					if err := sendAs(l.from, netip.AddrPortFrom(source, port), to, payload(l, port)); err != nil {
						t.Logf("%s cannot be sent: %v", payload(l, port), err)
					}
				}
			}
			for i, l := range lies {
				if p := payload(l, ports(i)[0]); l.shows {
					b.Eventually(p, func() bool { _, n := pod.saw(p); return n > 0 })
				}
			}
			b.Eventually("all sessions to end", func() bool {
				return d.Metric(`portald_connections_active{protocol="udp",service="shop/cart:talk"}`) == 0
			})
			seen := 0
			for i, l := range lies {
				for _, port := range ports(i) {
					from, n := pod.saw(payload(l, port))
					if shows := l.shows && slices.Contains(args, asClient); n > 0 && !shows && !honest[from] ||
						shows && from.String() != l.source {
						t.Errorf("%s: the endpoint sees %s", payload(l, port), from)
					}
					if n > 1 {
						t.Errorf("%s: the endpoint got it %d times", payload(l, port), n)
					}
					seen += n
				}
			}
			t.Logf("the endpoint saw %d datagrams of %d addresses", seen, len(lies))
			for _, from := range []*topology.Host{client, pod1} {
				for _, to := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80)} {
					c, err := bed.Dial(bed.AnswerTimeout, from, "udp", to)
					b.Must(err)
					defer c.Close()
					b.Must(bed.Echoes(c, c))
				}
			}
		})
	}
}

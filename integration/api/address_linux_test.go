package api

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// Ports at which pods answer with the client address that they see.
const (
	seesPort   = 8091
	headerPort = 8092
)

// seesClient checks that endpoints on both nodes see the client's own address, over TCP and UDP and in both families.
func seesClient(b *apibed.Bed, n *cluster.Namespace) {
	for _, pod := range []string{"a1", "b1"} {
		tellsClient(b, pod)
	}
	both := corev1.IPFamilyPolicyRequireDualStack
	s := n.Service("cart", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &both,
		Ports: []corev1.ServicePort{
			{Name: "tcp", Port: 80, TargetPort: intstr.FromInt32(seesPort)},
			{Name: "udp", Port: 80, TargetPort: intstr.FromInt32(seesPort), Protocol: corev1.ProtocolUDP},
		}})
	b.AddPods(n, "cart", "a1", "b1")
	ip, ip6 := s.Spec.ClusterIPs[0], s.Spec.ClusterIPs[1]
	if netip.MustParseAddr(ip).Is6() {
		ip, ip6 = ip6, ip
	}
	here := b.Sites[0]
	b.AnswersBoth(here.Client, apibed.On80(ip), "a1 "+gateway(here).String(), "b1 "+here.Node.IPv4.String())
	annotated(n, "cart", 81, map[string]string{"client-address": "transparent"})
	for _, s := range b.Sites[:2] {
		pod := s.Net.Pod(2)
		b.AnswersBoth(pod, bed.HostPort(ip, 81), "a1 "+pod.IPv4.String(), "b1 "+pod.IPv4.String())
		b.AnswersBoth(pod, bed.HostPort(ip6, 81), "a1 "+pod.IPv6.String(), "b1 "+pod.IPv6.String())
	}
	b.AnswersBoth(here.Client, bed.HostPort(ip, 81), "a1 "+here.Client.IPv4.String(), "b1 "+here.Client.IPv4.String())
	// The reply of a remote pod to a client on that pod's node would bypass this node, so that pod sees the node.
	elsewhere := b.Sites[1].Client
	b.Answers(elsewhere, "tcp", bed.HostPort(here.Node.IPv4.String(), nodePortOf(s, "tcp")),
		"a1 "+elsewhere.IPv4.String(), "b1 "+here.Node.IPv4.String())
	b.Answers(elsewhere, "udp", bed.HostPort(here.Node.IPv6.String(), nodePortOf(s, "udp")),
		"a1 "+elsewhere.IPv6.String(), "b1 "+here.Node.IPv6.String())
	// A pod drops packets with its own source address, so hairpin connections show the node.
	b.AnswersBoth(b.Pod("a1"), bed.HostPort(ip, 81), "a1 "+gateway(here).String(), "b1 "+b.Pod("a1").IPv4.String())
	annotated(n, "cart", 82, nil)
	b.AnswersBoth(here.Client, bed.HostPort(ip, 82), "a1 "+gateway(here).String(), "b1 "+here.Node.IPv4.String())
}

// tellsClient starts a server in a pod that answers with the pod's name and the client address that it sees.
func tellsClient(b *apibed.Bed, pod string) {
	b.Helper()
	site, host := b.Sites[pod[0]-'a'], b.Pod(pod)
	site.Serve(host, seesPort, func(c *net.TCPConn) { bed.NamesItself(pod + " " + seen(c.RemoteAddr()))(c) })
	c, err := host.ListenPacket("udp", fmt.Sprintf("[::]:%d", seesPort))
	if err != nil {
		b.Fatal(err)
	}
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			_, from, err := c.ReadFrom(make([]byte, 100))
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte(pod+" "+seen(from)), from) // the client checks the answer
		}
	})
	b.Cleanup(func() { c.Close(); answering.Wait() })
}

func seen(a net.Addr) string { return netip.MustParseAddrPort(a.String()).Addr().Unmap().String() }

// proxyHeader checks that endpoints get the client address in a PROXY protocol header, and that UDP is unchanged.
func proxyHeader(b *apibed.Bed, n *cluster.Namespace) {
	here := b.Sites[0]
	for _, pod := range []string{"a1", "b1"} {
		readsHeader(b, pod)
	}
	s := n.Service("cart", corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "tcp", Port: 80, TargetPort: intstr.FromInt32(headerPort)},
		{Name: "udp", Port: 80, TargetPort: intstr.FromInt32(bed.PodPort), Protocol: corev1.ProtocolUDP},
	}})
	b.AddPods(n, "cart", "a1", "b1")
	annotated(n, "cart", 81, map[string]string{"client-address": "proxy-v2"})
	address := bed.HostPort(s.Spec.ClusterIP, 81)
	for _, client := range []*topology.Host{here.Client, here.Net.Pod(2), b.Pod("b1")} {
		told := " " + client.IPv4.String() + " to " + address
		b.Answers(client, "tcp", address, "a1"+told, "b1"+told)
	}
	b.Answers(here.Client, "udp", address, "a1", "b1")
	event(b, "that UDP has no such header", "proxy-header", func(e *eventsv1.Event) bool {
		return e.Reason == "InvalidSetting" && strings.Contains(e.Note, "UDP")
	})
}

// readsHeader starts a server in a pod that reads a PROXY protocol header, version 2, and answers with the pod's name
// and the content of the header.
func readsHeader(b *apibed.Bed, pod string) {
	b.Helper()
	b.Sites[pod[0]-'a'].Serve(b.Pod(pod), headerPort, func(c *net.TCPConn) {
		says, err := header(c)
		if err != nil {
			says = err.Error()
		}
		bed.NamesItself(pod + " " + says)(c)
	})
}

// header reads a header for TCP over IPv4: signature, version and command, family and protocol, length, two addresses
// and two ports. Further fields are ignored.
func header(c io.Reader) (string, error) {
	start := make([]byte, 16)
	if _, err := io.ReadFull(c, start); err != nil {
		return "", err
	}
	const signature = "\r\n\r\n\x00\r\nQUIT\n\x21\x11"
	if string(start[:14]) != signature {
		return "", fmt.Errorf("begins with %q, want %q", start[:14], signature)
	}
	rest := make([]byte, binary.BigEndian.Uint16(start[14:]))
	if _, err := io.ReadFull(c, rest); err != nil || len(rest) < 12 {
		return "", fmt.Errorf("%d bytes of addresses, %w", len(rest), err)
	}
	client, server := netip.AddrFrom4([4]byte(rest)), netip.AddrFrom4([4]byte(rest[4:]))
	return fmt.Sprint(client, " to ", netip.AddrPortFrom(server, binary.BigEndian.Uint16(rest[10:]))), nil
}

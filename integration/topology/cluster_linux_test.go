package topology

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
)

func makeCluster(t *testing.T, nodes int, o Options) *Cluster {
	t.Helper()
	Require(t)
	c, err := NewCluster(t.Context(), nodes, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestEveryoneInAClusterReachesEveryone(t *testing.T) {
	c := makeCluster(t, 3, Options{Pods: 1, IPv6: true})
	hosts := []*Host{c.Control}
	for _, n := range c.Nets {
		hosts = append(hosts, n.Node, n.Client(0), n.Pod(0))
	}
	for _, from := range hosts {
		for _, to := range hosts {
			for _, addr := range []netip.Addr{to.IPv4, to.IPv6} {
				if err := refusal(t, from, addr); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("dial %s at %s from %s: %v, want a refusal", to.Name, addr, from.Name, err)
				}
			}
		}
	}
}

// A pod of one node is seen by its own address on another.
func TestClusterTranslatesNothing(t *testing.T) {
	c := makeCluster(t, 2, Options{Pods: 1})
	l, err := c.Nets[1].Pod(0).Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	from := c.Nets[0].Pod(0)
	conn, err := from.Dial(ctx, "tcp", netip.AddrPortFrom(c.Nets[1].Pod(0).IPv4, 80).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if seen := netip.MustParseAddrPort(got.RemoteAddr().String()).Addr(); seen != from.IPv4 {
		t.Errorf("the pod saw %s, want %s", seen, from.IPv4)
	}
}

func TestPodsAreInTheirNodesRange(t *testing.T) {
	c := makeCluster(t, 2, Options{Pods: 2, IPv6: true})
	for i, n := range c.Nets {
		v4, v6 := n.PodRange()
		for p := range 2 {
			if h := n.Pod(p); !v4.Contains(h.IPv4) || !v6.Contains(h.IPv6) {
				t.Errorf("node %d: pod %s has %s and %s, want them in %s and %s", i, h.Name, h.IPv4, h.IPv6, v4, v6)
			}
		}
	}
}

func TestAClusterMadeInPartIsTakenDown(t *testing.T) {
	first := makeCluster(t, 1, Options{Name: "c-"})
	_, err := NewCluster(t.Context(), 2, Options{Name: "c-"})
	if !errors.Is(err, os.ErrExist) {
		t.Errorf("a second cluster of the same name: %v, want that it exists", err)
	}
	if _, err := os.Stat(first.Nets[0].Node.Path()); err != nil {
		t.Errorf("the refused cluster took down the first: %v", err)
	}
	if err := makeCluster(t, 1, Options{Name: "d-"}).Close(); err != nil {
		t.Error(err)
	}
	for _, nodes := range []int{0, mostNodes + 1} {
		if _, err := NewCluster(t.Context(), nodes, Options{}); err == nil {
			t.Errorf("a cluster of %d nodes was made", nodes)
		}
	}
}

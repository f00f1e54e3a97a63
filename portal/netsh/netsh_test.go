package netsh

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// The commands of netsh, in both families.
func TestCommands(t *testing.T) {
	inTime(t, func(r *rig) {
		v4, v6 := clusterIP("10.96.0.10:80 shop/cart"), clusterIP("[fd00::10]:80 shop/cart")
		r.replace(v4, v6)
		r.update(nil, v4, v6)
		want := []string{
			"interface ipv4 add address name=7 address=10.96.0.10 mask=255.255.255.255 store=active skipassource=true",
			"interface ipv6 add address interface=7 address=fd00::10/128 store=active skipassource=true",
			"interface ipv4 delete address name=7 address=10.96.0.10 store=active",
			"interface ipv6 delete address interface=7 address=fd00::10 store=active",
		}
		var got []string
		for _, c := range r.sim.Calls() {
			got = append(got, strings.Join(c, " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("netsh\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		r.wantAdded()
	})
}

// An address stays while any portal has it, whatever its port, protocol, kind, target or Service.
func TestSharedAddress(t *testing.T) {
	inTime(t, func(r *rig) {
		web := redirect("203.0.113.5:80 shop/cart", service.LoadBalancerIP)
		dns := redirect("203.0.113.5:53/udp kube/dns", service.ExternalIP)
		refused := with(clusterIP("203.0.113.5:81 shop/empty"), portal.Reject{})
		dropped := with(clusterIP("203.0.113.6:80 shop/away"), portal.Drop{})
		r.replace(web, dns, refused, dropped)
		r.wantAdded("203.0.113.5/32", "203.0.113.6/32")
		r.wantServed("203.0.113.5:53/udp kube/dns", "203.0.113.5:80/tcp shop/cart")
		r.update(nil, web, dropped)
		r.wantAdded("203.0.113.5/32")
		r.wantServed("203.0.113.5:53/udp kube/dns")
		r.update(nil, dns)
		r.wantAdded("203.0.113.5/32")
		r.update(nil, refused)
		r.wantAdded()
		r.wantServed()
	})
}

// An address stays while connections that were accepted at it are open.
func TestAddressOfOpenConnections(t *testing.T) {
	inTime(t, func(r *rig) {
		web, till := clusterIP("10.96.0.10:80 shop/cart"), clusterIP("10.96.0.11:80 shop/till")
		r.replace(web, till)
		r.carried = map[netip.Addr]struct{}{web.Frontend.Addr.Addr(): {}}
		r.update(nil, web, till)
		r.wantServed()
		r.wantAdded("10.96.0.10/32")
		r.pass(time.Minute)
		r.wantAdded("10.96.0.10/32")
		if err := r.Audit(r.Context()); err != nil {
			t.Errorf("an audit misses the portal: %v", err)
		}
		r.carried = nil
		r.pass(follow)
		r.wantAdded()
	})
}

// Changes without a new address start no process, and do not look at the host.
func TestChangesAtAnAddress(t *testing.T) {
	inTime(t, func(r *rig) {
		web := clusterIP("10.96.0.10:80 shop/cart")
		r.replace(web)
		before, reads := r.calls(), r.reads
		r.update([]portal.Portal{with(web, portal.Reject{})})
		r.wantServed()
		r.update([]portal.Portal{clusterIP("10.96.0.10:80 shop/new"), clusterIP("10.96.0.10:443 shop/cart")})
		r.wantServed("10.96.0.10:443/tcp shop/cart", "10.96.0.10:80/tcp shop/new")
		if r.reads != reads {
			t.Errorf("the host's addresses are read %d times", r.reads-reads)
		}
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		r.wantServed("10.96.0.10:80/tcp shop/cart")
		if n := r.calls() - before; n > 0 {
			t.Errorf("%d processes of netsh for no address", n)
		}
	})
}

// An address of the node is served, and stays when its portals go.
func TestAddressOfTheNode(t *testing.T) {
	inTime(t, func(r *rig) {
		own, device := redirect("192.168.1.10:80 shop/cart", service.ExternalIP), clusterIP("172.22.0.1:80 shop/cart")
		r.replace(own, device)
		r.wantServed("172.22.0.1:80/tcp shop/cart", "192.168.1.10:80/tcp shop/cart")
		r.update(nil, own, device)
		if err := r.Cleanup(r.Context()); err != nil {
			t.Fatal(err)
		}
		r.wantServed()
		if n := r.calls(); n > 0 {
			t.Errorf("netsh: %q", r.sim.Calls())
		}
	})
}

func TestNodePorts(t *testing.T) {
	inTime(t, func(r *rig) {
		v4, v6 := nodePort("0.0.0.0:30080 shop/cart"), nodePort("[::]:30080 shop/cart")
		vip := clusterIP("10.96.0.10:80 shop/cart")
		r.replace(v4, v6, vip)
		r.wantServed("10.96.0.10:80/tcp shop/cart", "172.22.0.1:30080/tcp shop/cart", "192.168.1.10:30080/tcp shop/cart",
			"[fd01::10]:30080/tcp shop/cart")
		if got := r.socketsAt(vip.Frontend.Addr.Addr()); len(got) != 1 {
			t.Errorf("a change of the ClusterIP touches %v", got)
		}

		r.SetNodePortAddresses(prefixes("192.168.0.0/16"))
		r.replace(v4, v6, vip)
		r.wantServed("10.96.0.10:80/tcp shop/cart", "192.168.1.10:30080/tcp shop/cart")

		// A portal of the address itself goes before a NodePort, and gives way to it again.
		external := redirect("192.168.1.10:30080 shop/other", service.ExternalIP)
		r.update([]portal.Portal{external})
		r.wantServed("10.96.0.10:80/tcp shop/cart", "192.168.1.10:30080/tcp shop/other")
		r.update([]portal.Portal{with(external, portal.Reject{})})
		r.wantServed("10.96.0.10:80/tcp shop/cart")
		r.update(nil, external)
		r.wantServed("10.96.0.10:80/tcp shop/cart", "192.168.1.10:30080/tcp shop/cart")
		r.update(nil, v4, v6)
		r.wantServed("10.96.0.10:80/tcp shop/cart")
		r.wantFailing()
	})
}

// DHCP changes the node's address: NodePorts follow, and an address that was the node's is added.
func TestAddressesThatDHCPChanges(t *testing.T) {
	inTime(t, func(r *rig) {
		r.replace(nodePort("0.0.0.0:30080 shop/cart"), redirect("192.168.1.10:80 shop/cart", service.ExternalIP))
		r.takeAway(nodeIndex, "192.168.1.10")
		r.host.Add(nodeIndex, prefixes("192.168.1.77/24")[0])
		r.pass(follow)
		r.wantServed("172.22.0.1:30080/tcp shop/cart", "192.168.1.10:80/tcp shop/cart", "192.168.1.77:30080/tcp shop/cart")
		r.wantAdded("192.168.1.10/32")

		// Back again: what was ours is the node's now, and is not removed.
		r.takeAway(deviceIndex, "192.168.1.10")
		r.host.Add(nodeIndex, prefixes("192.168.1.10/24")[0])
		r.pass(follow)
		r.wantAdded()
		r.replace()
		r.takeAway(nodeIndex, "192.168.1.10")
		r.wantFailing()
	})
}

// An address that others remove comes back, and its sockets are opened again: nobody reaches the old ones.
func TestAddressThatOthersRemove(t *testing.T) {
	inTime(t, func(r *rig) {
		r.replace(clusterIP("10.96.0.10:80 shop/cart"), clusterIP("10.96.0.11:80 shop/till"))
		r.takeAway(deviceIndex, "10.96.0.10")
		r.wantServed("10.96.0.11:80/tcp shop/till")
		if err := r.Audit(r.Context()); err == nil || !strings.Contains(err.Error(), "10.96.0.10") {
			t.Errorf("an audit says %v, want the address that is gone", err)
		}
		r.pass(follow)
		r.wantServed("10.96.0.10:80/tcp shop/cart", "10.96.0.11:80/tcp shop/till")
		if err := r.Audit(r.Context()); err != nil {
			t.Error(err)
		}
		r.wantFailing()
	})
}

// A Replace has the Listeners open what they may have closed.
func TestReplaceOpensAgain(t *testing.T) {
	inTime(t, func(r *rig) {
		web := clusterIP("10.96.0.10:80 shop/cart")
		r.replace(web)
		r.open.Unlisten(web.Owner, web.Frontend.Addr)
		r.replace(web)
		r.wantServed("10.96.0.10:80/tcp shop/cart")
	})
}

func TestMissingInterface(t *testing.T) {
	r := newRig(t, t.TempDir())
	o := r.Options
	o.Interface = "vEthernet (nat)"
	_, err := New(o)
	for _, want := range []string{`"vEthernet (nat)"`, `"Ethernet"`, `"vEthernet (HNS Internal NIC)"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	o.Interface = strings.ToUpper(DefaultInterface)
	if _, err := New(o); err != nil {
		t.Errorf("a name in capital letters: %v", err)
	}
}

func TestCheck(t *testing.T) {
	r := newRig(t, t.TempDir())
	ok := clusterIP("10.96.0.10:80 shop/cart")
	other := ok
	other.Owner.Protocol = inet.UDP
	sctp := with(ok, portal.Redirect{})
	sctp.Frontend.Protocol, sctp.Owner.Protocol = inet.SCTP, inet.SCTP
	for what, p := range map[string]portal.Portal{
		"a spread":           with(ok, portal.Spread{Pool: &portal.Pool{}}),
		"listeners for UDP":  other,
		"SCTP":               sctp,
		"NodePort somewhere": redirect("10.96.0.10:80 shop/cart", service.NodePort),
	} {
		if err := r.Check(p); err == nil || !strings.Contains(err.Error(), "shop/cart") {
			t.Errorf("%s: error %v, want one that names the Service", what, err)
		}
		if err := r.Replace(r.Context(), []portal.Portal{p}); err == nil {
			t.Errorf("%s: a Replace takes it", what)
		}
	}
	if err := r.Check(with(ok, portal.Redirect{Port: 11000, Inside: true})); err != nil {
		t.Error(err)
	}
}

// A thousand Services take seconds, on a host where a process takes 80 ms and a command 2 ms.
func TestThousandServices(t *testing.T) {
	inTime(t, func(r *rig) {
		var all []portal.Portal
		for i := range 1000 {
			all = append(all, clusterIP(fmt.Sprintf("10.96.%d.%d:80 shop/s%d", i/250, i%250+1, i)))
		}
		start := time.Now()
		r.replace(all...)
		took, processes := time.Since(start), r.calls()
		t.Logf("1,000 Services: %d processes of netsh, %s", processes, took)
		if len(r.served()) != 1000 || took > 5*time.Second {
			t.Errorf("%d are served after %s", len(r.served()), took)
		}
		start = time.Now()
		r.update([]portal.Portal{clusterIP("10.97.0.1:80 shop/one-more")})
		t.Logf("one more: %d process of netsh, %s", r.calls()-processes, time.Since(start))
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("one more takes %s", took)
		}
		start, processes = time.Now(), r.calls()
		r.restart()
		r.replace(all...)
		t.Logf("again after a crash: %d process of netsh, %s", r.calls()-processes, time.Since(start))
		if len(r.served()) != 1000 || r.calls() != processes+1 {
			t.Errorf("%d are served after a crash, %d processes of netsh", len(r.served()), r.calls()-processes)
		}
		r.replace()
		r.wantAdded()
	})
}

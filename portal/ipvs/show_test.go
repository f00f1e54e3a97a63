package ipvs

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Show lists portals as the commands print them, and names what the kernel lacks.
func TestShow(t *testing.T) {
	k := newFake("192.0.2.1")
	w, _ := k.writer(t, Options{LocalDetector: portal.LocalDetector{Interface: "cni0"}})
	w.look = func() (kernel, error) {
		other := k.kernel()
		other.close = func() {}
		return other, nil
	}
	p := spread(service.ClusterIP, clusterIP, inet.TCP, first, second)
	node := spread(service.NodePort, "0.0.0.0:30080", inet.TCP, first)
	replace(t, w, p, node)
	mine := []portal.Portal{p, node}
	shown, err := w.Show(t.Context(), mine)
	if err != nil || len(shown.Missing) > 0 {
		t.Errorf("%v, missing %q", err, shown.Missing)
	}
	var lines []string
	for _, r := range shown.Rules {
		lines = append(lines, r.Place+": "+r.Text)
	}
	for _, want := range []string{
		"ipvsadm -S -n: -A -t 10.96.0.1:80 -s rr",
		"ipvsadm -S -n: -a -t 10.96.0.1:80 -r 10.244.0.3:8080 -m -w 1 (0 connections)",
		"ipvsadm -S -n: -A -t 192.0.2.1:30080 -s rr", "ipset list: add PORTALD-CLUSTER-IP 10.96.0.1,tcp:80",
		"ipset list: add PORTALD-NP 192.0.2.1,tcp:30080",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	behind := netip.MustParseAddrPort(second)
	for want, damage := range map[string]func(){
		"address 10.96.0.1 on device portald-ipvs0":          func() { delete(k.device, p.Frontend.Addr.Addr()) },
		"element 10.96.0.1,tcp:80 of set PORTALD-CLUSTER-IP": func() { clear(k.sets["PORTALD-CLUSTER-IP"]) },
		"endpoint 10.244.0.3:8080 of virtual server":         func() { delete(k.ends[p.Frontend], behind) },
		"virtual server 10.96.0.1:80/tcp is set other":       func() { k.servers[p.Frontend] = settings{} },
		"virtual server 192.0.2.1:30080/tcp": func() {
			delete(k.servers, front("192.0.2.1:30080", inet.TCP))
		},
	} {
		damage()
		shown, err := w.Show(t.Context(), mine)
		if missing := strings.Join(shown.Missing, "\n"); err != nil || !strings.Contains(missing, want) {
			t.Errorf("%v, missing %q, want %q", err, missing, want)
		}
		replace(t, w, mine...)
	}
}

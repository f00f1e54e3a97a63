package ipvs

import (
	"context"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// needIPVS is for a test of a kernel with IPVS. In the guest of integration/vmrun there is one, or something is wrong;
// Elsewhere they are left to make test-ipvs.
func needIPVS(t testing.TB) {
	t.Helper()
	err := Usable(Options{})
	switch {
	case err == nil:
	case os.Getenv("VM_IN_GUEST") == "1":
		t.Fatal(err)
	case netnstest.Elsewhere("ipvs"):
		t.Skipf("runs in a virtual machine, by make test-ipvs; here: %v", err)
	default:
		netnstest.Missing(t, "needs a virtual machine (make test-ipvs): %v", err)
	}
}

// node is a site whose writer is one of ours.
type node struct {
	*portaltest.Site
	ours *Writer
}

func newNode(t *testing.T, edit func(*Options)) *node {
	t.Helper()
	needIPVS(t)
	n := &node{}
	n.Site = portaltest.NewSite(t, func() (portal.Writer, error) {
		w, err := open(t, edit)
		n.ours = w
		return w, err
	})
	return n
}

func open(t testing.TB, edit func(*Options)) (*Writer, error) { return openCounting(t, edit, nil) }

// openCounting opens a writer that reports what is refused.
func openCounting(t testing.TB, edit func(*Options), refused func(portal.Refused)) (*Writer, error) {
	o := Options{Log: t.Logf}
	if edit != nil {
		edit(&o)
	}
	rules, err := iptables.New(t.Context(), iptables.Options{
		Options: writer.Options{
			Settings:   writer.Settings{LocalDetector: o.LocalDetector, NodePortAddresses: o.NodePortAddresses},
			ProxyPorts: portaltest.ProxyRange(), Masquerade: o.Masquerade, Dials: o.Dials,
			Log: t.Logf, Refused: refused,
		},
		Prefix: o.Prefix, Extra: Chains(o), ExtraNames: ChainNames,
	})
	if err != nil {
		return nil, err
	}
	o.Rules = rules
	return New(o)
}

func TestClusterIP(t *testing.T) {
	n := newNode(t, nil)
	pod := n.Pod("eth1", prefixes("10.244.0.2/24", "fd00:244::2/64"), prefixes("10.244.0.1/24", "fd00:244::1/64"))
	for _, host := range []string{"10.244.0.2", "fd00:244::2"} {
		pod.Must(func() error { return portaltest.Echo(t, host, 8080) })
	}
	n.Write([]portal.Portal{
		spread(service.ClusterIP, "10.96.0.1:80", inet.TCP, "10.244.0.2:8080"),
		spread(service.ClusterIP, "10.96.0.1:80", inet.UDP, "10.244.0.2:8080"),
		spread(service.ClusterIP, "[fd00:96::1]:80", inet.TCP, "[fd00:244::2]:8080"),
		spread(service.ClusterIP, "[fd00:96::1]:80", inet.UDP, "[fd00:244::2]:8080"),
	})
	for _, network := range []string{"tcp", "udp"} {
		for _, addr := range []string{"10.96.0.1:80", "[fd00:96::1]:80"} {
			n.Expect(n.Client, "the client", network, addr, portaltest.Answered)
			n.Expect(n.Node, "the node", network, addr, portaltest.Answered)
			n.Expect(pod, "the endpoint", network, addr, portaltest.Silence)
		}
		for _, addr := range []string{"10.96.0.1:81", "[fd00:96::1]:81"} {
			n.Expect(n.Client, "the client", network, addr, portaltest.Refused)
			n.Expect(n.Node, "the node", network, addr, portaltest.Refused)
		}
	}
	n.audit()
}

func (n *node) audit() {
	n.Helper()
	if err := n.Node.Do(func() error { return n.ours.Audit(context.Background()) }); err != nil {
		n.Error(err)
	}
}

// cannot are the behaviours that IPVS has no means for: see the package's comment.
var cannot = []portaltest.Behaviour{
	portaltest.NodeScopeInside, portaltest.AffinityAcrossFrontends, portaltest.AffinityForgotten,
	portaltest.NoPodsKnownNode, portaltest.Random, portaltest.AlgorithmsTurn,
}

var quick = flag.Bool("quick", false, "leave out behaviours that take long without hardware to run on")

// long are left out of quick runs: others come close to them, and without hardware to run on they take their time.
var long = []portaltest.Behaviour{
	portaltest.ExternalFrontends, portaltest.PodsByInterface, portaltest.NoPodsKnown, portaltest.MasqueradeAll,
	portaltest.SourceRangesNode, portaltest.AffinityThroughChanges, portaltest.PoolChanges, portaltest.ScopeChanges,
}

func TestSpreading(t *testing.T) {
	needIPVS(t)
	without := cannot
	if *quick {
		without = slices.Concat(cannot, long)
	}
	portaltest.Spreading(t, func(s portaltest.Settings) (portal.Writer, error) {
		return open(t, func(o *Options) {
			o.LocalDetector, o.NodePortAddresses, o.Masquerade, o.Dials = s.LocalDetector, s.NodePortAddresses, s.Masquerade,
				s.Dials
		})
	}, without...)
}

func TestTraffic(t *testing.T) {
	needIPVS(t)
	portaltest.Traffic(t, func(inside portal.LocalDetector) (portal.Writer, error) {
		return open(t, func(o *Options) { o.LocalDetector, o.Dials = inside, portal.DefaultDials })
	})
}

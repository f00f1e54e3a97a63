package ipvs

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/portal"
)

// DefaultPrefix begins the names of our sets and chains unless Options says otherwise.
const DefaultPrefix = "PORTALD"

// SolePrefix is the prefix of the cluster's only service proxy. Sets and device then have the names that kube-proxy
// gives them, and the virtual servers at addresses that it left there are taken over.
const SolePrefix = "KUBE"

// schedulers are the kernel's schedulers, each a module ip_vs_NAME. They choose the endpoint of a new connection.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh"}

// Options of a Writer. Only Rules has no default.
type Options struct {
	// Rules is the Writer of the portals that do not spread. It was given Chains.
	Rules portal.Writer
	// Prefix begins the names of sets and chains: capital letters, digits and -, 14 at most; SolePrefix for kube-proxy's.
	Prefix string
	// Scheduler is one of rr (the default) wrr lc wlc lblc lblcr sh dh sed nq mh.
	Scheduler string
	// ExcludeCIDRs are the addresses of virtual servers of other programs, which are left alone.
	ExcludeCIDRs []netip.Prefix
	// StrictARP makes the host answer ARP only for addresses of the receiving interface, as some load balancers need.
	StrictARP bool
	// How long IPVS keeps an idle connection, one after its FIN, and a UDP session; whole seconds, 0 = unchanged.
	TCPTimeout, TCPFinTimeout, UDPTimeout time.Duration
	// NodePortAddresses are the local addresses that NodePorts are served on but loopback; empty means all.
	// SetNodePortAddresses changes them later.
	NodePortAddresses []netip.Prefix
	// NodeAddresses are the addresses of the node that Render renders for. A Writer asks the host.
	NodeAddresses []netip.Addr
	// LocalDetector tells pods from other clients. SetLocalDetector changes the addresses later.
	LocalDetector portal.LocalDetector
	// Masquerade says how flows get this node's address.
	Masquerade portal.Masquerade
	// Dials is the mark of the daemon's own packets to endpoints, which no virtual server takes. 0 is none.
	Dials uint32
	// Log is called once for each thing that the host cannot do. Default none.
	Log func(format string, args ...any)
}

// maxPrefix is the room for a prefix in the names of iptables chains, in bytes.
const maxPrefix = 14

var prefixForm = regexp.MustCompile(`^[A-Z][A-Z0-9-]*$`)

// complete sets defaults, and refuses what makes no sense.
func (o *Options) complete() error {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if !prefixForm.MatchString(o.Prefix) || len(o.Prefix) > maxPrefix {
		return fmt.Errorf("prefix %q of sets: want at most %d of A-Z, 0-9 and -, a letter first", o.Prefix, maxPrefix)
	}
	if o.Scheduler == "" {
		o.Scheduler = "rr"
	}
	if !slices.Contains(schedulers, o.Scheduler) {
		return fmt.Errorf("IPVS scheduler %q: want one of %s", o.Scheduler, strings.Join(schedulers, " "))
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	for _, t := range []time.Duration{o.TCPTimeout, o.TCPFinTimeout, o.UDPTimeout} {
		if t < 0 || t%time.Second != 0 {
			return fmt.Errorf("IPVS timeout %v: want whole seconds, or 0 to leave it alone", t)
		}
	}
	if err := o.Masquerade.Complete(); err != nil {
		return err
	}
	if err := portal.CheckDials(o.Dials, o.Masquerade.Mark); err != nil {
		return err
	}
	return o.LocalDetector.Check()
}

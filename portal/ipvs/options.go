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

// Schedulers are those of the kernel, each a module ip_vs_NAME: who gets the next connection.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh"}

// Options of a Writer. Only Rules has no default.
type Options struct {
	// Rules get all portals that are not IPVS's. They have been given Chains.
	Rules portal.HostWriter
	// Prefix begins the names of sets and chains: capital letters, digits and -, 14 at most; SolePrefix for kube-proxy's.
	Prefix string
	// Scheduler is one of rr (the default) wrr lc wlc lblc lblcr sh dh sed nq mh.
	Scheduler string
	// ExcludeCIDRs hold virtual servers of others that are never touched.
	ExcludeCIDRs []netip.Prefix
	// StrictARP has the host answer only for addresses of the interface that it is asked on, as some load balancers need.
	StrictARP bool
	// How long IPVS keeps a silent connection, one that is being closed, and a UDP session; whole seconds, 0 = as it is.
	TCPTimeout, TCPFinTimeout, UDPTimeout time.Duration
	// NodePortAddresses are the local addresses that node ports are served on; empty means all. Node ports on loopback
	// are never led anywhere. SetNodePortAddresses changes them later.
	NodePortAddresses []netip.Prefix
	// NodeAddresses are for Render alone: the addresses of the node that it writes rules for.
	NodeAddresses []netip.Addr
	// Inside says who is not masqueraded, and who may use frontends in NodeScope without an endpoint here. SetInside
	// changes the addresses later.
	Inside portal.Inside
	// Masquerade says who else is given this node's address.
	Masquerade portal.Masquerade
	// Dials is the mark of what the daemon itself sends to endpoints, which no virtual server takes. 0 is none.
	Dials uint32
	// Log is told once of each thing that the host cannot do. The default is silence.
	Log func(format string, args ...any)
}

// A chain's name has at most 28 characters; ours, and those of the iptables Writer, add up to 14 to the prefix.
const maxPrefix = 14

var prefixForm = regexp.MustCompile(`^[A-Z][A-Z0-9-]*$`)

// complete sets defaults and refuses what makes no sense.
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
	return o.Inside.Check()
}

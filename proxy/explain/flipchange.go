package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel"
)

const choiceTitle = "Choice of endpoints"

// choice says how endpoints would be chosen.
func (f *flip) choice() {
	f.algorithms()
	f.affinity()
	if f.toKernel() {
		f.returning(f.Drained, "drained", "drains")
		f.returning(f.ejectedNow, "ejected", "ejects")
	}
	if f.node.Writer == "ipvs" && f.Port.ExternalLocal {
		f.say(choiceTitle, Doubt, "by NodePorts and other external addresses, clients inside the cluster get %s",
			f.either("this node's endpoints alone", "all endpoints, not this node's alone"))
	}
	f.dials()
}

func (f *flip) algorithms() {
	own := f.asked.Algorithm
	if f.toKernel() && own != service.AlgorithmDefault && !f.node.Offers(own) {
		f.say(choiceTitle, Doubt, "portald.io/algorithm: %s is not possible by the kernel with the writer %s", own,
			f.node.Writer)
	}
	userspace := f.policy().Algorithm.String()
	by := kernel.AlgorithmOf(own, f.node.Policy.Algorithm, f.node.Offers).String()
	switch {
	case by == "" && f.node.Writer == "ipvs":
		by = fmt.Sprintf("the scheduler %s (ipvs.scheduler)", f.node.Scheduler)
	case by == "":
		by = service.Random.String()
	}
	if by != userspace {
		f.say(choiceTitle, Fact, "%s", f.either(by+", now "+userspace, userspace+", now "+by))
	}
}

// affinity says what becomes of clients that are bound to endpoints.
func (f *flip) affinity() {
	if f.Port.Affinity == 0 {
		return
	}
	bound := 0
	for _, n := range f.Bindings {
		bound += n
	}
	switch {
	case !f.toKernel():
		f.say(choiceTitle, Doubt, "ClientIP affinity begins anew: the kernel's bindings are forgotten")
		f.say(choiceTitle, Fact, "a client whose endpoint fails is bound to another one, and does not fail until it is not "+
			"ready")
		return
	case bound > 0:
		f.say(choiceTitle, Doubt, "ClientIP affinity begins anew: %s forgotten", were(bound))
	default:
		f.say(choiceTitle, Fact, "ClientIP affinity begins anew, and no client is bound now")
	}
	f.say(choiceTitle, Fact, "a client whose endpoint fails stays bound to it, until it is not ready")
	switch f.node.Writer {
	case "iptables":
		f.say(choiceTitle, Fact, "iptables remembers the last 100 clients of each endpoint")
	case "ipvs":
		f.say(choiceTitle, Fact, "IPVS binds clients for each frontend apart")
	}
	for _, family := range inet.Families() {
		if n := len(f.Port.Usable(family, service.ClusterScope)); n > kernel.MaxBound {
			f.say(choiceTitle, Doubt, "with affinity, %d of the %d endpoints of %s serve from this node", kernel.MaxBound, n,
				family)
		}
	}
}

func were(bound int) string {
	if bound == 1 {
		return "the binding of 1 client is"
	}
	return fmt.Sprintf("the bindings of %d clients are", bound)
}

func (f *flip) ejectedNow(at netip.AddrPort) bool { return f.Ejected != nil && f.Ejected(at) != "" }

// returning says how many endpoints get new connections again that portald leaves out.
func (f *flip) returning(is func(netip.AddrPort) bool, state, does string) {
	n := 0
	for _, x := range f.Port.Endpoints {
		if is != nil && is(x.Addr) {
			n++
		}
	}
	if n > 0 {
		f.say(choiceTitle, Doubt, "%s of the Service, %s now, would get new connections: the kernel %s none",
			count(n, "endpoint"), state, does)
	}
}

// dials says what becomes of connections whose endpoint fails.
func (f *flip) dials() {
	if f.Port.Name.Protocol != inet.TCP {
		return
	}
	p := f.policy()
	if !f.toKernel() {
		if n := len(p.ConnectTimeouts); n > 1 {
			f.say(choiceTitle, Fact, "a connection whose endpoint refuses or does not answer is tried at others, up to %d dials",
				n)
		}
		if p.EjectAfter > 0 {
			f.say(choiceTitle, Fact, "an endpoint that fails %d connections in a row is left out for a while", p.EjectAfter)
		}
		return
	}
	served, rescued := 0, 0
	for _, r := range f.Records {
		if f.now.Sub(r.Start.Add(r.Duration)) > recentTime || !r.Proxy().IsValid() {
			continue
		}
		served++
		for i := range r.Attempts {
			if r.Attempts[i].Failed() {
				rescued++
				break
			}
		}
	}
	switch n := len(p.ConnectTimeouts); {
	case rescued > 0:
		f.say(choiceTitle, Doubt, "no other endpoint is tried: %d of the last %s reached one by another dial than their "+
			"first", rescued, count(served, "connection"))
	case n > 1:
		f.say(choiceTitle, Fact, "a connection whose endpoint refuses or does not answer fails: no other is tried (now up "+
			"to %d dials)", n)
	}
}

// clients says what clients notice when they connect.
func (f *flip) clients() {
	const title = "Clients"
	if f.Port.Name.Protocol == inet.TCP {
		f.say(title, Fact, "%s", f.either("an endpoint that refuses refuses the client's connect: it is not reset after it",
			"a connect succeeds before an endpoint is dialled: one that none serves is reset after it, and not refused"))
	}
	for _, l := range f.nodeLimits() {
		status, does := Fact, "starts to count"
		if f.toKernel() {
			status, does = Doubt, "stops counting"
		}
		f.say(title, status, "%s of this node %s", l, does)
	}
	if f.toKernel() && f.Waiting > 0 {
		f.say(title, Doubt, "%s for an endpoint now: others that come are refused at once", wait(f.Waiting))
	}
	balanced := func(x service.Exposure) bool { return x.Kind == service.LoadBalancerIP }
	if len(f.Port.SourceRanges) > 0 && slices.ContainsFunc(f.Port.Exposures, balanced) {
		f.say(title, Fact, "clients outside loadBalancerSourceRanges are dropped%s", f.either("",
			", or reset where portald alone can tell them"))
	}
}

func wait(n int) string {
	if n == 1 {
		return "1 client waits"
	}
	return fmt.Sprintf("%d clients wait", n)
}

// nodeLimits are limits of the daemon's own that the Service does not set, and that count in userspace mode alone.
func (f *flip) nodeLimits() (all []string) {
	node := f.node.Policy
	for _, l := range []struct {
		name     string
		own, all int
	}{
		{"maxConnections", f.asked.MaxConnections, node.MaxConnections},
		{"maxConnectionsPerClient", f.asked.Shares.MaxConnectionsPerClient, node.Shares.MaxConnectionsPerClient},
		{"connectionRate", f.asked.Shares.ConnectionRate, node.Shares.ConnectionRate},
		{"connectionRatePerClient", f.asked.Shares.ConnectionRatePerClient, node.Shares.ConnectionRatePerClient},
	} {
		if l.own == 0 && l.all > 0 {
			all = append(all, fmt.Sprintf("%s %d", l.name, l.all))
		}
	}
	if f.asked.WaitForEndpoint == 0 && node.WaitForEndpoint > 0 {
		all = append(all, "waitForEndpoint "+node.WaitForEndpoint.String())
	}
	return all
}

// records says which connections get a record, and what counts them.
func (f *flip) records() {
	const title = "Records and metrics"
	of := f.policy()
	if !f.toKernel() {
		f.say(title, Fact, "each connection gets a record when it ends, with its dials, times and who closed it")
		if of.Logging.Records != service.RecordsAll {
			f.say(title, Fact, "the connection log has those that connection-log lets in (%s)", of.Logging.Records)
		}
		f.say(title, Fact, "portald_connections_total and the metrics of endpoints count them, and "+
			"portald_kernel_connections_total does not")
		return
	}
	const late = "when the kernel forgets it, up to minutes later, without its dials, times of connect and first byte, " +
		"and who closed it"
	switch of.KernelRecords {
	case service.RecordsAll:
		f.say(title, Fact, "each connection gets a record %s", late)
	case service.RecordsFailures:
		f.say(title, Doubt, "a connection that failed gets a record %s; others get none (kernel-records: failures)", late)
	default:
		f.say(title, Doubt, "no connection gets a record, in portald tail, the connection log or metrics; "+
			"portald.io/kernel-records: all gives records")
	}
	if of.KernelRecords != service.RecordsOff {
		f.say(title, Fact, "portald_kernel_connections_total counts them; portald_connections_total and the metrics of "+
			"endpoints do not")
	}
	f.say(title, Fact, "portald cut and portald drain do not act on what the kernel carries")
}

// open says what becomes of what is open now.
func (f *flip) open() {
	const title = "Open connections"
	udp := f.Port.Name.Protocol == inet.UDP
	noun, n := "connection", f.Carried
	if udp {
		noun = "session"
	}
	if f.toKernel() {
		n = f.Open[inet.IPv4] + f.Open[inet.IPv6]
	}
	switch {
	case !f.toKernel() && f.FlowsErr != nil:
		f.say(title, Fact, "how many the kernel carries is not known: %v", f.FlowsErr)
	case n == 0:
		f.say(title, Fact, "none is open now")
		return
	default:
		f.say(title, Fact, "open now: %s", count(n, noun))
	}
	switch {
	case udp:
		f.say(title, Fact, "a client that goes on sending takes the new way with one of its next datagrams")
	case f.toKernel():
		f.say(title, Fact, "they go on by portald until they end, with the settings they began with; new ones take the new "+
			"way")
	default:
		f.say(title, Fact, "they go on by the kernel as long as conntrack has them; new ones take the new way")
	}
}

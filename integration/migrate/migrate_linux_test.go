package migrate

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/portald/portald/integration/bed"
)

// proxyMode is a mode of portald.
type proxyMode struct {
	name      string
	userspace bool
	args      []string
	often     bool // it is tried without -full too
	ends      bool // what the kernel carries ends on the way back, when the virtual servers of IPVS are removed
}

func proxyModes() []proxyMode {
	return []proxyMode{
		{name: "userspace by iptables", userspace: true, often: true},
		{name: "iptables", args: []string{"--proxy-mode=iptables"}},
		{name: "userspace by nftables", userspace: true, args: []string{"--writer=nftables"}},
		{name: "nftables", args: []string{"--proxy-mode=nftables"}, often: true},
	}
}

// migration is a node with kube-proxy in one mode, which goes to portald and back.
type migration struct {
	*bed.Bed
	proxy     *kubeProxy
	load      *load
	addresses []string
	checks    bool             // there is a Service with healthCheck
	before    func()           // sets the objects up that kube-proxy sees
	meanwhile func()           // changes them while portald serves
	changed   []*regexp.Regexp // match kube-proxy's rules once they have these changes
	want      func() []string  // the state at the end
}

// leavesIPVS is the step in which portald goes from a kernel mode, of which IPVS may be one, to userspace mode.
const leavesIPVS = "kube-proxy has no rules any more"

// thereAndBack follows docs/install.md.
func (m *migration) thereAndBack(w proxyMode) {
	m.Helper()
	was := m.Bed
	defer func() { m.Bed = was }()
	m.before()
	m.load.at("there, to " + w.name)
	kernel := open(m.Bed, "by kube-proxy", m.addresses...)
	m.proxy.stop()
	m.load.at("kube-proxy is stopped")
	kernel = append(kernel, open(m.Bed, "by the rules of kube-proxy", m.addresses...)...)
	d := m.Launch(nil, append([]string{"--kubeconfig=" + m.proxy.kubeconfig, "--hostname-override=a", bed.PodRanges,
		"--drain-timeout=1s"}, w.args...)...)
	d.WaitReady()
	m.load.at("portald serves")
	var userspace []talk
	if talks := open(m.Bed, "by portald", m.addresses...); w.userspace {
		userspace = talks
	} else {
		kernel = append(kernel, talks...)
	}
	m.meanwhile()
	m.load.at("Services have changed")
	if w.userspace {
		m.proxy.cleanUp()
		if left := kubeNames.FindString(m.ruleset()); left != "" {
			m.Fatalf("kube-proxy leaves %s", left)
		}
	}
	m.load.at(leavesIPVS)
	checkOpen(m.Bed, "with portald", append(kernel, userspace...)...)

	if !w.userspace {
		d = m.next(d, "--proxy-mode=userspace")
		m.Eventually("names of kube-proxy to be gone", func() bool {
			links, err := m.Try(m.Node, "ip", "-o", "link")
			return err == nil && !kubeNames.MatchString(m.ruleset()) && !strings.Contains(links, "kube-ipvs0")
		})
		if w.ends {
			kernel = nil
		}
		m.load.at("back: portald is in userspace mode")
		userspace = open(m.Bed, "by portald in userspace", m.addresses...)
	}
	m.proxy.start()
	if !bed.Within(bed.Patience, func() bool { return m.sees(m.ruleset()) }) {
		m.Fatalf("kube-proxy does not write its rules:\n%s", m.ruleset())
	}
	m.load.at("back: kube-proxy serves beside portald")
	userspace = append(userspace, open(m.Bed, "with both", m.addresses...)...) // either may have them
	d = m.next(d, "--on-exit=remove")
	m.load.at("back: portald is to remove all")
	checkOpen(m.Bed, "while portald is to remove all", append(kernel, userspace...)...)
	d.Signal(syscall.SIGTERM)
	if code := d.Exit(); code != 0 {
		m.Errorf("portald ended with code %d\n%s", code, d.Log)
	}
	m.load.at("back: portald is gone")
	m.proxy.stop() // which found ports taken that it does not try again
	m.proxy.start()
	m.Eventually("kube-proxy to serve the node's health", m.proxy.healthy)
	if m.checks {
		m.Eventually("kube-proxy to serve the health of a Service", m.checked)
	}
	m.load.at("back: kube-proxy has started again")
	checkOpen(m.Bed, "without portald", kernel...)
	want := m.want()
	isSame := func() bool { return slices.Equal(state(m.Bed), want) }
	if !bed.Within(bed.Patience, isSame) {
		same(m.Bed, w.name, want, state(m.Bed))
	}
	if m.Failed() {
		m.load.finish()
		m.FailNow()
	}
}

// kubeNames match what kube-proxy, and portald in a kernel mode, have whatever the Services are.
var kubeNames = regexp.MustCompile(`KUBE-(SVC|SERVICES|NODEPORTS|POSTROUTING)|table ip6? kube-proxy`)

// served waits until every address answers.
func (m *migration) served() {
	m.Helper()
	ok := bed.Within(bed.Patience, func() bool {
		for _, to := range m.addresses {
			for _, network := range []string{"tcp", "udp"} {
				if _, err := bed.AskWithin(bed.SilenceTimeout, m.Client, network, to); err != nil {
					return false
				}
			}
		}
		return true
	})
	if !ok {
		m.Fatalf("kube-proxy does not serve:\n%s", m.ruleset())
	}
}

// healthCheck is a healthCheckNodePort, of the first 86: the API server takes none of these by itself while others are
// free.
const healthCheck = 30055

// checked tells whether a load balancer is told that this node has endpoints.
func (m *migration) checked() bool {
	code, _, err := bed.Fetch(m.Client, bed.HostPort(m.Node.IPv4.String(), healthCheck), "/healthz")
	return err == nil && code == http.StatusOK
}

// sees tells whether rules are those of a kube-proxy that has seen the changes.
func (m *migration) sees(rules string) bool {
	return !slices.ContainsFunc(m.changed, func(r *regexp.Regexp) bool { return !r.MatchString(rules) })
}

// next has another portald take over, with these flags too.
func (m *migration) next(d *bed.Daemon, args ...string) *bed.Daemon {
	m.Helper()
	next := d.Succeed(args...)
	if code := d.Exit(); code != 0 {
		m.Fatalf("the portald before ended with code %d\n%s", code, d.Log)
	}
	next.WaitReady()
	return next
}

// ruleset is all rules as text.
func (m *migration) ruleset() string {
	if bed.InVM {
		out, _ := m.Try(m.Node, "ipvsadm", "-Sn") // there may be none
		return out + m.Rules()
	}
	return m.Rules() + m.Ruleset()
}

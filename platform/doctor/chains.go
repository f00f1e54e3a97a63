package doctor

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/portald/portald/platform/netfilter"
)

// kubeChain matches the chains of service proxies with kube-proxy's names, and not those that kubelet has.
var kubeChain = regexp.MustCompile(
	`^KUBE-(SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL|NODE-PORT|(SVC|SEP|SVL|FW|EXT|XLB)-.*)$`)

const kubeTable = "kube-proxy"

// isOwnTable tells whether a table of nftables has a name that portald gives, in one of its modes.
func isOwnTable(table string) bool { return table == kubeTable || isPortaldName(table) }

func isPortaldName(name string) bool {
	return strings.HasPrefix(name, "PORTALD-") || name == "portald" || strings.HasPrefix(name, "portald-")
}

// chain is a chain of iptables, or a table of nftables, by whose names they are.
type chain struct {
	table   *netfilter.Table
	name    string // empty: a table of nftables
	portald bool   // else it has a name of kube-proxy's
}

func (c chain) String() string {
	if c.name == "" {
		return c.table.String()
	}
	return fmt.Sprintf("%s (%s)", c.name, c.table)
}

// proxyForm matches the names of a portald with a serviceProxyName, whose hash they have.
var proxyForm = regexp.MustCompile(`(?i)^portald-([0-9a-f]{6})(-|$)`)

// proxyOf returns the hash of the proxy name that a chain is for; empty is the portald without one. Several portalds
// may serve a node, each with a proxy name of its own.
func proxyOf(c chain) string {
	name := c.name
	if name == "" {
		name = c.table.Name
	}
	if match := proxyForm.FindStringSubmatch(name); match != nil {
		return strings.ToLower(match[1])
	}
	return ""
}

// proxyChains lists what service proxies have, and returns an error if that may not be all.
func (f *Facts) proxyChains() (out []chain, err error) {
	if f.Rules.Err != nil {
		return nil, f.Rules.Err
	}
	for _, t := range f.Rules.Value.Tables {
		if t.Program == netfilter.NFTables && isOwnTable(t.Name) {
			out = append(out, chain{table: t, portald: t.Name != kubeTable})
		}
		for _, c := range t.Chains {
			if portald := isPortaldName(c.Name); t.Program != netfilter.NFTables && (portald || kubeChain.MatchString(c.Name)) {
				out = append(out, chain{t, c.Name, portald})
			}
		}
	}
	return out, f.unread()
}

// unread is why not all rules could be read, nil if they were.
func (f *Facts) unread() error {
	all := f.Rules.Value.Unread
	switch len(all) {
	case 0:
		return nil
	case 1:
		return errors.New(all[0])
	}
	return fmt.Errorf("%s, and %d more", all[0], len(all)-1)
}

// writes tells whether the daemon's writer writes to a program's tables.
func (d *Daemon) writes(by netfilter.Program) bool {
	return (d.Writer == string(netfilter.NFTables)) == (by == netfilter.NFTables)
}

// owns tells whether a chain is the daemon's.
func (d *Daemon) owns(c chain, all []chain) bool {
	return d.writes(c.table.Program) && (c.portald || d.kubeNames(all))
}

// kubeNames tells whether the daemon's chains have kube-proxy's names: in a kernel mode, if it has no others.
func (d *Daemon) kubeNames(all []chain) bool {
	return d.Mode != userspace &&
		!slices.ContainsFunc(all, func(c chain) bool { return c.portald && d.writes(c.table.Program) })
}

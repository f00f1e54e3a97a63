package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/portald/portald/portal/service"
)

// check adds an error for each invalid value, and for values that contradict each other.
func (d *draft) check() {
	for _, s := range settings() {
		if s.must == nil || d.unchecked(s) {
			continue
		}
		for _, v := range values(d.at(s)) {
			if advice := s.must(v); advice != "" {
				d.fail(s, shown(v), advice)
			}
		}
	}
	d.checkSource()
	d.checkSystem()
	d.checkWriter()
	d.checkMasquerade()
	d.checkPeriods()
	d.checkDetectLocal()
	d.checkPorts()
	d.checkNodeIPs()
	d.checkLists()
	d.checkPage()
	d.warnOfNodePorts()
	slices.SortStableFunc(d.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}

// unchecked tells whether any value of a setting is taken: kube-proxy does not check settings of another mode.
func (d *draft) unchecked(s setting) bool {
	if s.doc != kubeProxy {
		return false
	}
	group, name, _ := strings.Cut(s.path, ".")
	switch {
	case d.flags[s.flag] && d.sharesFlag(s):
		return false
	case s.path == "clusterCIDR", group == modeIPVS, group == modeNFTables, strings.HasSuffix(name, "yncPeriod"):
		return d.noEffect(s) != ""
	}
	return false
}

// checkSource: Services come from one source.
func (d *draft) checkSource() {
	if len(d.portald.Manifests) == 0 {
		return
	}
	for _, server := range []struct{ path, value string }{
		{"clientConnection.kubeconfig", d.kubeProxy.ClientConnection.Kubeconfig}, {"master", d.portald.Master.Reveal()},
	} {
		if server.value != "" {
			d.contradict("manifests", server.path,
				"%s and %s contradict each other: Services come from manifests or from the API server; omit one")
		}
	}
}

func (d *draft) checkPeriods() {
	if sync, least := d.syncPeriods(); least.Duration > sync.Duration && sync.Duration > 0 {
		group := d.periods()
		d.contradict(group+".minSyncPeriod", group+".syncPeriod", "%[1]s %[3]v: must not be more than %[2]s, which is %[4]v",
			least.Duration, sync.Duration)
	}
}

// checkDetectLocal: some modes need a name.
func (d *draft) checkDetectLocal() {
	local := d.kubeProxy.DetectLocal
	for _, need := range []struct {
		mode        DetectLocalMode
		path, value string
	}{
		{ByBridgeInterface, "detectLocal.bridgeInterface", local.BridgeInterface},
		{ByInterfacePrefix, "detectLocal.interfaceNamePrefix", local.InterfaceNamePrefix},
	} {
		if DetectLocalMode(d.kubeProxy.DetectLocalMode) == need.mode && need.value == "" {
			d.contradict("detectLocalMode", need.path, "%[1]s %[3]s: needs %[2]s, which is missing", need.mode)
		}
	}
}

// checkPorts: the two fields for one range must be equal, and the two servers need different addresses.
func (d *draft) checkPorts() {
	old, own := d.kubeProxy.PortRange, d.portald.ProxyPortRange
	a, err := parsePortRange(old)
	b, err2 := parsePortRange(own)
	if !anyPort(old) && errors.Join(err, err2) == nil && a != b {
		d.contradict("proxyPortRange", "portRange", "%[1]s %[3]s: contradicts %[2]s, which is %[4]s; omit one", own, old)
	}
	health, metrics := d.kubeProxy.HealthzBindAddress, d.kubeProxy.MetricsBindAddress
	if h := listenAddress(health, healthPort); h != "" && h == listenAddress(metrics, metricsPort) {
		d.contradict("healthzBindAddress", "metricsBindAddress", "%s and %s are both %s: write different ones", h)
	}
}

// checkPage: the page shows what the API does, at the same address.
func (d *draft) checkPage() {
	switch on := d.portald.UI; {
	case on && !d.portald.ReadOnlyAPI:
		d.contradict("ui", "readOnlyAPI", "%s needs %s, which is off: every user of the node may read what the page shows; "+
			"turn it on, or omit the page")
	case on && listenAddress(d.kubeProxy.MetricsBindAddress, metricsPort) == "":
		d.contradict("ui", "metricsBindAddress", "%s needs %s, which is none: the page is served there; write an address")
	}
}

// checkNodeIPs: connections of a family are redirected to one address.
func (d *draft) checkNodeIPs() {
	first := map[bool]string{}
	for _, s := range d.portald.NodeIPs {
		if hostAddress(s) != "" {
			continue
		}
		is6 := addresses([]string{s})[0].Is6()
		if other, has := first[is6]; has {
			d.fail(settingOf("nodeIPs"), s, "must be one of each family; "+other+" is of the same")
		}
		first[is6] = s
	}
}

// checkLists: lists of times have a maximum length.
func (d *draft) checkLists() {
	for _, s := range service.Settings() {
		times, ok := s.Value.(service.Times)
		if field := d.portald.serviceField(s.Field); ok && field.Len() > times.Most {
			d.fail(settingOf(s.Field), shown(field.Interface()), fmt.Sprintf("must be at most %d times", times.Most))
		}
	}
}

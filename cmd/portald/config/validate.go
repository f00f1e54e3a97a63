package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/userspace"
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
	d.warnOfNodePorts()
	slices.SortStableFunc(d.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}

// unchecked tells whether any value of a setting is taken: kube-proxy does not look at those of another mode.
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

// values are the values of a field: those of a list, none if it is not set or not in the document's type.
func values(field reflect.Value) []any {
	switch {
	case !field.IsValid() || field.Kind() == reflect.Pointer && field.IsNil():
		return nil
	case field.Kind() == reflect.Pointer:
		return values(field.Elem())
	case field.Kind() == reflect.Slice:
		var out []any
		for i := range field.Len() {
			out = append(out, field.Index(i).Interface())
		}
		return out
	}
	return []any{field.Interface()}
}

// fail adds an error about a value, with the name of the flag or field that set it.
func (d *draft) fail(s setting, value, advice string) {
	name := d.origin(s)
	if !d.flags[s.flag] {
		name += ":"
	}
	d.errs = append(d.errs, fmt.Errorf("%s %s: %s", name, value, advice))
}

// origin is the flag or field that set a setting.
func (d *draft) origin(s setting) string {
	switch {
	case d.flags[s.flag]:
		return "--" + s.flag
	case d.file.has(s.doc):
		return d.file.where(s.doc) + ": " + s.path
	}
	if s.flag != "" {
		return "--" + s.flag
	}
	return s.path
}

// settingOf is the setting of a path.
func settingOf(path string) setting {
	all := settings()
	return all[slices.IndexFunc(all, func(s setting) bool { return s.path == path })]
}

// origins are those of two fields, for one message: the second omits what both have in common.
func (d *draft) origins(path, other string) (string, string) {
	a, b := settingOf(path), settingOf(other)
	first, second := d.origin(a), d.origin(b)
	if d.flags[a.flag] || d.flags[b.flag] || !d.file.has(a.doc) || !d.file.has(b.doc) {
		return first, second
	}
	if a.doc == b.doc {
		return first, b.path
	}
	return first, strings.TrimPrefix(second, d.file.path+": ")
}

// contradict adds an error about two fields that contradict each other, unless the file has something else in one of
// them than what it seems to: that is an error already.
func (d *draft) contradict(path, other, format string, values ...any) {
	if d.unread(settingOf(path)) || d.unread(settingOf(other)) {
		return
	}
	first, second := d.origins(path, other)
	d.errs = append(d.errs, fmt.Errorf(format, append([]any{first, second}, values...)...))
}

// unread tells whether the file has a value of a setting that is of the wrong type.
func (d *draft) unread(s setting) bool {
	return d.file != nil && d.file.unread[s.doc][s.path] && !d.flags[s.flag]
}

func (d *draft) hasSource() bool {
	return len(d.portald.Manifests) > 0 || d.kubeProxy.ClientConnection.Kubeconfig != "" || !d.portald.Master.IsZero()
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

// nodePortRange are the ports that Kubernetes gives to Services, unless its API server says otherwise.
var nodePortRange = userspace.PortRange{First: 30000, Last: 32767}

// warnOfNodePorts warns of a range of local ports that has some that Services may have as node ports.
func (d *draft) warnOfNodePorts() {
	s := settingOf("proxyPortRange")
	r, err := parsePortRange(d.portald.ProxyPortRange)
	if err != nil || r.Last < nodePortRange.First || r.First > nodePortRange.Last || d.noEffect(s) != "" {
		return
	}
	if d.portald.ProxyPortRange == d.kubeProxy.PortRange {
		s = settingOf("portRange")
	}
	d.warnings = append(d.warnings, fmt.Sprintf("%s: %s: overlaps the node ports %s that API servers give by default: "+
		"a port that portald has taken cannot be a Service's healthCheckNodePort, nor a NodePort at a loopback address; "+
		"choose others, such as %s", d.origin(s), r, nodePortRange, userspace.DefaultPortRange()))
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

package config

import (
	"cmp"
	"reflect"
	"regexp"
	"strings"
)

// setting declares a field and its flag: flags, help, checks, `portald config check`, reload and the tables of
// docs/configuration.md come from it. Those that a Service may override come from service.Settings.
type setting struct {
	doc    doc
	path   string // of the field in its document
	flag   string // that sets it; empty: none
	effect effect
	must   rule   // what its value, or each of a list, must be; nil: anything of its type
	text   string // what it does, with its placeholder in backquotes; or why it has no effect
}

// effect is when the value of a setting takes effect.
type effect int

const (
	ignored effect = iota // never
	atStart               // when the daemon starts
	live                  // as soon as the file changes
)

// topic is a group of settings in help and in the manual.
type topic struct {
	title    string
	settings []setting
}

// topics are all groups of settings.
func topics() []topic {
	return append(usedTopics(), topic{"Accepted from kube-proxy, without effect", unusedSettings()})
}

// hostTopics are the titles of the groups that cleanup needs too.
func hostTopics() []string { return []string{titleHost, titleLog} }

const (
	titleHost = "The host"
	titleLog  = "The daemon's own log"
)

// settings are those of all topics.
func settings() []setting {
	var out []setting
	for _, t := range topics() {
		out = append(out, t.settings...)
	}
	return out
}

// beatsFile tells whether a flag overrides a document in the file: kube-proxy's own flags do not, with the same
// exceptions as in kube-proxy, and the one that the service control manager runs the daemon with.
func (s setting) beatsFile() bool {
	return s.doc == portald || s.path == "hostnameOverride" || s.path == asService || strings.HasPrefix(s.path, "logging.")
}

// standsForDefault tells whether the value of a flag means the default: kube-proxy takes an empty text for that, and
// took any port.
func (s setting) standsForDefault(value reflect.Value) bool {
	switch {
	case s.path == "proxyPortRange":
		return anyPort(value.String())
	case s.doc != kubeProxy || value.Kind() != reflect.String || s.must == nil:
		return false
	}
	return value.String() == "" && s.must("") != ""
}

// plainText is the text without backquotes.
func (s setting) plainText() string { return strings.ReplaceAll(s.text, "`", "") }

// gist is the first clause of the text.
func (s setting) gist() string {
	end := regexp.MustCompile(`[;.:] | \(`).FindStringIndex(s.text + "; ")
	return strings.ReplaceAll(s.text[:min(end[0], len(s.text))], "`", "")
}

// noEffect is why a setting has no effect beside the others, empty if it has one.
func (d *documents) noEffect(s setting) string {
	group, name, _ := strings.Cut(s.path, ".")
	if why := cmp.Or(noEffectOn(d.system, s), noEffectBeside(d.portald.Writer, s)); why != "" {
		return why
	}
	switch local := DetectLocalMode(d.kubeProxy.DetectLocalMode); {
	case s.effect == ignored:
		return s.plainText()
	case s.doc == kubeProxy && strings.HasSuffix(name, "yncPeriod") && group != d.periods():
		return "the mode uses those of " + d.periods()
	case s.path == "udpIdleTimeout" && d.kubeProxy.Mode != modeUserspace:
		return "for mode userspace only"
	case s.doc == kubeProxy && strings.HasPrefix(name, "masquerade") && group != d.masquerades():
		return "the writer is " + d.portald.Writer + ", which uses " + d.masquerades() + "." + name
	case group == modeIPVS && !strings.HasSuffix(name, "yncPeriod") && d.portald.Writer != modeIPVS:
		return "for the writer ipvs only; the writer is " + d.portald.Writer
	case s.path == "clusterCIDR" && (local == ByNodeCIDR || local == ByBridgeInterface || local == ByInterfacePrefix):
		return "detectLocalMode is " + string(local)
	case s.path == "interfaceName" && d.portald.Writer != writerNetsh:
		return "for the writer netsh only; the writer is " + d.portald.Writer
	case s.path == "serviceCIDRs" && d.portald.Writer != modeNFTables:
		return "for the writer nftables only; the writer is " + d.portald.Writer
	}
	return ""
}

// periods is the group of the KubeProxyConfiguration whose syncPeriod and minSyncPeriod are used.
func (d *documents) periods() string {
	return groupOf(string(d.kubeProxy.Mode))
}

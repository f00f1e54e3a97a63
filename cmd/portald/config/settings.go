package config

import (
	"regexp"
	"strings"
)

// setting is one thing that can be configured: all that is said of a field and its flag is said once, here, and flags,
// help, checks, `portald config check`, reload and the tables of docs/configuration.md come from it.
type setting struct {
	doc    doc
	path   string // of the field in its document
	flag   string // that sets it; empty: none
	effect effect
	must   rule   // what its value, or each of a list, must be; nil: anything of its type
	text   string // what it does, with its value's name in backquotes; why it does nothing, where it is without effect
}

// effect is when the value of a setting counts.
type effect int

const (
	ignored effect = iota // never: it is understood, and has nothing to act on
	atStart               // when the daemon starts
	live                  // as soon as the file says so
)

// topic is some settings that belong together, as help shows them.
type topic struct {
	title    string
	settings []setting
}

// topics are all settings.
func topics() []topic {
	return append(usedTopics(), topic{"Accepted from kube-proxy, and without effect", unusedSettings()})
}

// hostTopics are the titles of those that say what is used of the host: cleaning up needs them too.
func hostTopics() []string { return []string{titleHost, titleLog} }

const (
	titleHost = "The host"
	titleLog  = "The daemon's own log, on standard error"
)

// settings are those of all topics.
func settings() []setting {
	var out []setting
	for _, t := range topics() {
		out = append(out, t.settings...)
	}
	return out
}

// beatsFile tells whether a flag counts although the file says something about its document: kube-proxy's own flags do
// not, except where kube-proxy makes an exception too.
func (s setting) beatsFile() bool {
	return s.doc == portald || s.path == "hostnameOverride" || strings.HasPrefix(s.path, "logging.")
}

// plainText is the text without the marks of its value's name.
func (s setting) plainText() string { return strings.ReplaceAll(s.text, "`", "") }

// gist is the first thing that the text says.
func (s setting) gist() string {
	end := regexp.MustCompile(`[;.:] | \(`).FindStringIndex(s.text + "; ")
	return strings.ReplaceAll(s.text[:min(end[0], len(s.text))], "`", "")
}

// idle says why a setting has no effect beside the others, empty if it has.
func (d *documents) idle(s setting) string {
	group, name, _ := strings.Cut(s.path, ".")
	switch {
	case s.effect == ignored:
		return s.plainText()
	case s.doc == kubeProxy && strings.HasSuffix(name, "yncPeriod") && group != d.periods():
		return "the times are those of " + d.periods() + ", as the mode says"
	case s.path == "udpIdleTimeout" && d.kubeProxy.Mode != modeUserspace:
		return "for mode userspace only"
	case s.doc == kubeProxy && strings.HasPrefix(name, "masquerade") && group != d.masquerades():
		return "the writer is " + d.portald.Writer + ", for which " + d.masquerades() + "." + name + " counts"
	case group == modeIPVS && !strings.HasSuffix(name, "yncPeriod") && d.portald.Writer != modeIPVS:
		return "for the writer ipvs only, and it is " + d.portald.Writer
	case s.path == "serviceCIDRs" && d.portald.Writer != modeNFTables:
		return "for the writer nftables only, and it is " + d.portald.Writer
	case s.path == "iptablesVariant" && d.portald.Writer == modeNFTables:
		return "the writer nftables does without iptables"
	}
	return ""
}

// periods is the group of the KubeProxyConfiguration whose syncPeriod and minSyncPeriod count.
func (d *documents) periods() string {
	return writerOf(string(d.kubeProxy.Mode))
}

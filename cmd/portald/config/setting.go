package config

import (
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

const (
	titleHost = "The host"
	titleLog  = "The daemon's own log"
)

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

// asService is the path of kube-proxy's setting of a service of Windows.
const asService = "windowsRunAsService"

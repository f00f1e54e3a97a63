package config

import (
	"fmt"
	"strings"
)

// remarkMode says that portald is not asked for what it does.
func (d *draft) remarkMode() {
	s, mode := settingOf("mode"), d.kubeProxy.Mode
	if mode != "" && mode != "userspace" && s.must(mode) == "" {
		d.warnings = append(d.warnings, fmt.Sprintf("%s %s: portald has no kernel modes yet and serves in userspace", d.origin(s), mode))
	}
}

// remarkIdle names what stands in the file for nothing.
func (d *draft) remarkIdle() {
	if idle := d.idleFields(); len(idle) > 0 {
		d.warnings = append(d.warnings, fmt.Sprintf("%s: without effect: %s; portald config check %s says why",
			d.file.where(kubeProxy), strings.Join(idle, ", "), d.file.path))
	}
}

// idleFields are those that kube-proxy's document gives a value of its own, for nothing.
func (d *draft) idleFields() (out []string) {
	if !d.file.has(kubeProxy) {
		return nil
	}
	for _, s := range settings() {
		if value, written := d.file.written[kubeProxy][s.path]; s.doc == kubeProxy && written && d.idle(s) != "" && !d.usual(s, value) {
			out = append(out, s.path)
		}
	}
	return out
}

// usual tells whether a setting has its default; value is what is written where this release has no such field.
func (d *documents) usual(s setting, value any) bool {
	field := d.at(s)
	if !field.IsValid() {
		return value == nil
	}
	var plain documents
	plain.setDefaults()
	return shown(field.Interface()) == shown(plain.at(s).Interface())
}

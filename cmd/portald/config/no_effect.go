package config

import (
	"fmt"
	"strings"
)

// remarkIdle names what flags and the file say for nothing.
func (d *draft) remarkIdle() {
	for _, s := range settings() {
		if why := d.idle(s); d.flags[s.flag] && why != "" && !d.lent(s) {
			d.warnings = append(d.warnings, fmt.Sprintf("--%s has no effect: %s", s.flag, why))
		}
	}
	for _, which := range []doc{kubeProxy, portald} {
		if idle := d.idleFields(which); len(idle) > 0 {
			d.warnings = append(d.warnings, fmt.Sprintf("%s: without effect: %s; portald config check %s says why",
				d.file.where(which), strings.Join(idle, ", "), d.file.path))
		}
	}
}

// idleFields are those that a document of the file gives a value of its own, for nothing.
func (d *draft) idleFields(which doc) (out []string) {
	if !d.file.has(which) {
		return nil
	}
	for _, s := range settings() {
		if value, written := d.file.written[which][s.path]; s.doc == which && written && !d.flags[s.flag] && d.idle(s) != "" &&
			!d.usual(s, value) {
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
	if s.path != "mode" {
		plain.kubeProxy.Mode = d.kubeProxy.Mode // some depend on it
	}
	plain.setDefaults()
	return shown(field.Interface()) == shown(plain.at(s).Interface())
}

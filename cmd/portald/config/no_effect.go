package config

import (
	"fmt"
	"strings"
)

// warnOfNoEffect adds warnings of flags and fields that have no effect.
func (d *draft) warnOfNoEffect() {
	for _, s := range settings() {
		if why := d.noEffect(s); d.flags[s.flag] && why != "" && !d.sharesFlag(s) {
			d.warnings = append(d.warnings, fmt.Sprintf("--%s has no effect: %s", s.flag, why))
		}
	}
	for _, which := range []doc{kubeProxy, portald} {
		if idle := d.fieldsWithoutEffect(which); len(idle) > 0 {
			d.warnings = append(d.warnings, fmt.Sprintf("%s: no effect: %s; see portald config check %s",
				d.file.where(which), strings.Join(idle, ", "), d.file.path))
		}
	}
}

// fieldsWithoutEffect are those of a document in the file that differ from the default and have no effect.
func (d *draft) fieldsWithoutEffect(which doc) (out []string) {
	if !d.file.has(which) {
		return nil
	}
	for _, s := range settings() {
		if value, written := d.file.written[which][s.path]; s.doc == which && written && !d.flags[s.flag] &&
			d.noEffect(s) != "" &&
			!d.isDefault(s, value) {
			out = append(out, s.path)
		}
	}
	return out
}

// isDefault tells whether a setting has its default; value is the written one, for fields that this release does not
// have.
func (d *documents) isDefault(s setting, value any) bool {
	field := d.at(s)
	if !field.IsValid() {
		return value == nil
	}
	plain := documents{system: d.system}
	if s.path != "mode" {
		plain.kubeProxy.Mode = d.kubeProxy.Mode // some defaults depend on it
	}
	plain.setDefaults()
	return shown(field.Interface()) == shown(plain.at(s).Interface())
}

package config

import "github.com/portald/portald/portal/service"

// serviceSettings are the daemon's values of what a Service may override: service.Settings declares their fields.
func serviceSettings() (out []setting) {
	for _, s := range service.Settings() {
		if s.Field != "" {
			out = append(out, setting{portald, s.Field, s.FlagName(), live, ruleOf(s.Value), s.Help})
		}
	}
	return out
}

// ruleOf returns the rule for the daemon's value of a setting, or for each of a list.
func ruleOf(value service.Value) rule {
	switch v := value.(type) {
	case service.Times:
		return aboveZero
	case service.Timeout:
		if v.Never && !v.Needed {
			return notNegative
		}
		return aboveZero
	case service.Count:
		if v.Most == 0 {
			return notNegative
		}
		return between(0, float64(v.Most))
	case service.Ratio, service.Removals, service.Ages:
		return form(v)
	case service.Choice:
		return oneOf(v.Words...)
	case service.Words:
		return form(v)
	}
	return nil
}

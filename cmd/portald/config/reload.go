package config

import (
	"fmt"
	"slices"
)

// Changes are the differences of a newer configuration from the running one.
type Changes struct {
	Apply   Settings // all of the newer ones that need no restart
	Applied []string // a line for each of them that changed
	Restart []string // a line for each setting that changed and takes effect at the next start
}

// Reload compares the running configuration with a newer one.
func (c *Config) Reload(next *Config) Changes {
	out := Changes{Apply: next.Settings}
	for _, s := range settings() {
		was, is := c.documents.at(s), next.documents.at(s)
		if !was.IsValid() || c.documents.noEffect(s) != "" && next.documents.noEffect(s) != "" {
			continue
		}
		from, to := shown(was.Interface()), shown(is.Interface())
		change := fmt.Sprintf("%s changed from %s to %s", s.path, from, to)
		if from == to {
			if slices.Equal(revealed(was), revealed(is)) {
				continue
			}
			change = s.path + " changed"
		}
		if s.effect == live {
			out.Applied = append(out.Applied, change)
		} else {
			out.Restart = append(out.Restart, change+": takes effect at the next start")
		}
	}
	return out
}

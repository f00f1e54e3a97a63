package portal

import "slices"

// Shown lists how portals are installed on a host.
type Shown struct {
	Rules   []Installed // in the order in which a packet meets them
	Missing []string    // what the portals need and the host lacks
}

// Installed is a rule, an element of a set or an address, as the host has it.
type Installed struct {
	Place string // such as the command and table, or the set
	Text  string // in the syntax of the facility's own command
}

// Add adds lines of one place, each once.
func (s *Shown) Add(place string, lines ...string) {
	for _, line := range lines {
		if rule := (Installed{place, line}); !slices.Contains(s.Rules, rule) {
			s.Rules = append(s.Rules, rule)
		}
	}
}

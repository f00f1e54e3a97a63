// Package objecttest helps the tests of translate and of its sources: it reads objects from YAML, and renders service
// ports as text.
package objecttest

import (
	"fmt"
	"strings"
	"time"

	"github.com/portald/portald/portal/service"
)

// Render writes service ports as text, one thing a line.
func Render(ports []*service.Port) string {
	var out strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&out, "%s", p.Name)
		if !p.Created.IsZero() {
			fmt.Fprintf(&out, " created %s", p.Created.UTC().Format("2006-01-02T15:04:05Z"))
		}
		if p.Affinity > 0 {
			fmt.Fprintf(&out, " affinity %v", p.Affinity)
		}
		if len(p.SourceRanges) > 0 {
			fmt.Fprintf(&out, " from %v", p.SourceRanges)
		}
		out.WriteString(renderTraffic(p))
		out.WriteByte('\n')
		for _, e := range p.Exposures {
			fmt.Fprintf(&out, "  %s %s\n", e.Kind, e.Frontend)
		}
		for _, e := range p.Endpoints {
			fmt.Fprintf(&out, "  -> %s%s\n", e.Addr, renderEndpoint(e))
		}
	}
	return out.String()
}

// All renders what is in a store.
func All(store *service.Store) string {
	ports, _ := store.All()
	return Render(ports)
}

// renderTraffic writes what is not as it is by default.
func renderTraffic(p *service.Port) (out string) {
	if p.InternalLocal {
		out += " internal-local"
	}
	if p.ExternalLocal {
		out += " external-local"
	}
	if p.HealthCheckPort != 0 {
		out += fmt.Sprintf(" health-check %d", p.HealthCheckPort)
	}
	if p.Mode != service.ModeDefault {
		out += " mode " + p.Mode.String()
	}
	if p.DebugUntil != nil {
		out += " until " + p.DebugUntil.Format(time.RFC3339)
	}
	if !p.Policy.Equal(service.Policy{}) {
		out += fmt.Sprintf(" policy %+v", p.Policy)
	}
	return out
}

func renderEndpoint(e service.Endpoint) string {
	var out string
	for _, flag := range []struct {
		on   bool
		name string
	}{
		{e.Local, "local"}, {e.Ready, "ready"}, {e.Serving, "serving"}, {e.Terminating, "terminating"},
		{e.NotHinted, "not-hinted"},
	} {
		if flag.on {
			out += " " + flag.name
		}
	}
	for _, text := range []string{e.Pod, e.Node, e.Zone} {
		if text != "" {
			out += " " + text
		}
	}
	return out
}

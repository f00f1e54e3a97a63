package answers

import (
	"fmt"
	"sync"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/dataplane"
)

// Problems remembers why service ports, or frontends of them, are not served as they ask to be. The reconcile loop
// tells, and any goroutine reads.
type Problems struct {
	mu        sync.Mutex // guards what follows
	ports     map[service.PortName]string
	frontends map[service.Frontend]failedFrontend // that the host does not give
}

type failedFrontend struct {
	owner service.PortName
	why   string
}

// NewProblems returns none.
func NewProblems() *Problems {
	return &Problems{ports: map[service.PortName]string{}, frontends: map[service.Frontend]failedFrontend{}}
}

// Refused notes what dataplane.Options.Refused reports.
func (p *Problems) Refused(n dataplane.Refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.Err == nil {
		delete(p.ports, n.Name)
	} else {
		p.ports[n.Name] = fmt.Sprintf("%s: %v", n.Reason, n.Err)
	}
}

// Failed notes what writers.Deps.FailedPortal reports, and returns how many frontends are not served.
func (p *Problems) Failed(f portal.Portal, err error) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.frontends, f.Frontend)
	} else {
		p.frontends[f.Frontend] = failedFrontend{f.Owner, err.Error()}
	}
	return len(p.frontends)
}

// Services are those of which something is not served, as namespace/name.
func (p *Problems) Services() map[string]struct{} {
	of := map[string]struct{}{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.ports {
		of[name.Service().String()] = struct{}{}
	}
	for _, f := range p.frontends {
		of[f.owner.Service().String()] = struct{}{}
	}
	return of
}

// ofPort returns why a service port is set aside, empty if it is not.
func (p *Problems) ofPort(name service.PortName) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ports[name]
}

// ofFrontends returns why frontends of a service port are not served.
func (p *Problems) ofFrontends(port *service.Port) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range port.Exposures {
		if f, failed := p.frontends[x.Frontend]; failed && f.owner == port.Name {
			all = append(all, fmt.Sprintf("%s: %s", x.Frontend, f.why))
		}
	}
	return all
}

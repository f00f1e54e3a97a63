package kernel

import "github.com/portald/portald/portal/service"

// algorithm returns how endpoints of a service port are chosen: by its own setting, else as the daemon does, else in
// the Writer's own way.
func (o *Options) algorithm(p *service.Port) service.Algorithm {
	if own := p.Policy.Algorithm; own != service.AlgorithmDefault && o.Offers(own) {
		return own
	}
	if all := o.Algorithm(); all != service.RoundRobin && o.Offers(all) {
		return all
	}
	return service.AlgorithmDefault
}

package kernel

import "github.com/portald/portald/portal/service"

// algorithm returns how endpoints of a service port are chosen.
func (o *Options) algorithm(p *service.Port) service.Algorithm {
	return AlgorithmOf(p.Policy.Algorithm, o.Algorithm(), o.Offers)
}

// AlgorithmOf returns how endpoints are chosen: by a service port's own setting, else as the daemon does, each if it is
// offered, else in the Writer's own way.
func AlgorithmOf(own, daemons service.Algorithm, offers func(service.Algorithm) bool) service.Algorithm {
	if own != service.AlgorithmDefault && offers(own) {
		return own
	}
	if daemons != service.RoundRobin && offers(daemons) {
		return daemons
	}
	return service.AlgorithmDefault
}

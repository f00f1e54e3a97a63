package answers

import (
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/changes"
)

// drain implements adminsocket.Daemon.Drain.
func (i *Inventory) drain(shown *adminsocket.Endpoint, force bool) error {
	p, e, err := i.find(shown)
	if err != nil {
		return err
	}
	if p.Mode.Or(i.Mode) == service.ModeKernel {
		return errors.New("the kernel carries this Service, and portald cannot keep its connections away from one " +
			"endpoint: annotate the Service with portald.io/mode=userspace first")
	}
	if err := i.Listeners.Endpoints().Drain(p.Name, e, force); errors.Is(err, balance.ErrLast) {
		return fmt.Errorf("%w: with force it is drained, and its clients are refused", err)
	}
	i.History.Add(drained(changes.EndpointDrained, p, e))
	i.logDrain(shown).Warn("Endpoint drained: new connections of this node go to others until it is undrained " +
		"or portald ends")
	return nil
}

// undrain implements adminsocket.Daemon.Undrain.
func (i *Inventory) undrain(shown *adminsocket.Endpoint) error {
	p, e, err := i.find(shown)
	if err != nil {
		return err
	}
	if !i.Listeners.Endpoints().Undrain(p.Name, e.Addr) {
		return errors.New("it is not drained")
	}
	i.History.Add(drained(changes.EndpointUndrained, p, e))
	i.logDrain(shown).Info("Endpoint undrained")
	return nil
}

func drained(k changes.Kind, p *service.Port, e service.Endpoint) changes.Change {
	return changes.Change{Kind: k, Service: p.Name, Endpoint: e.Addr, Pod: e.Pod}
}

func (i *Inventory) logDrain(e *adminsocket.Endpoint) *logrus.Entry {
	return i.Log.WithFields(logrus.Fields{"service": e.Service, "endpoint": e.Address.String(), "pod": e.Pod})
}

// find returns the endpoint that was shown.
func (i *Inventory) find(shown *adminsocket.Endpoint) (*service.Port, service.Endpoint, error) {
	for _, p := range i.Store.Ports() {
		if p.Name.Label() != shown.Service || p.Name.Protocol.String() != shown.Protocol {
			continue
		}
		for _, e := range p.Endpoints {
			if e.Addr == shown.Address {
				return p, e, nil
			}
		}
	}
	return nil, service.Endpoint{}, errors.New("it is not an endpoint of the Service any more")
}

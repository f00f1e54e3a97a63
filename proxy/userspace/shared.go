package userspace

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
)

// Of each range some ports are for listeners that TCP service ports without a port of their own share: see shared.
const (
	mostShared  = 16 // of a family
	sharedShare = 64 // a port in so many is for one family's
	leastRange  = 16 // smaller ones have none
)

// sharedPorts is how many listeners of a family service ports may share.
func sharedPorts(within inet.PortRange) int {
	if within.Size() < leastRange {
		return 0
	}
	return min(max(within.Size()/sharedShare, 1), mostShared)
}

// canShare tells whether a service port may have a listener together with others. A UDP socket cannot be shared, since
// a session is known by its client alone.
func (p *proxyPorts) canShare(of frontKey) bool {
	return of.name.Protocol == inet.TCP && !of.isShared() && sharedPorts(p.within) > 0
}

// shared is the key of the listener that a service port shares with others if it has none of its own, of its family and
// by its namespace: the clients of one namespace fill the backlog of one listener. False: it cannot share one.
func (p *proxyPorts) shared(of frontKey) (key frontKey, ok bool) {
	if !p.canShare(of) {
		return frontKey{}, false
	}
	number := fnv.New32a()
	io.WriteString(number, of.name.Namespace)
	port := fmt.Sprintf("shared-%d", number.Sum32()%uint32(sharedPorts(p.within)))
	return frontKey{service.PortName{Port: port, Protocol: inet.TCP}, of.family}, true
}

// isShared tells whether a key is one of shared: it is no Service's.
func (k frontKey) isShared() bool { return k.name.Name == "" }

// sharing is a Carrier that gives service ports listeners to share.
type sharing struct{ *Carrier }

// listen gives a front a proxy port: one of its own, or, where it can have none, one that it shares.
func (c sharing) listen(f *front) error {
	err := c.proxies.open(f, c.opts.Inherit(f.key.name, f.key.family).Port)
	if !errors.Is(err, errNoPort) && !errors.Is(err, quota.ErrDescriptors) {
		return err
	}
	with, none := c.front(f.key)
	if none != nil {
		return err
	}
	c.proxies.share(f, with)
	return nil
}

// front returns the open front whose listener a service port can share. It has no frontends: each connection becomes
// one of the front that exposes what its client dialled.
func (c sharing) front(of frontKey) (*front, error) {
	key, ok := c.proxies.ports.shared(of)
	if !ok {
		return nil, errNoPort
	}
	if f := c.fronts.get(key); f != nil {
		return f, nil
	}
	f := newFront(key, c.endpoints)
	if err := c.update(f, &service.Port{Name: key.name}, service.UsableEndpoints{}); err != nil {
		return nil, err
	}
	if err := c.proxies.open(f, c.opts.Inherit(key.name, key.family).Port); err != nil {
		c.drop(f)
		return nil, err
	}
	c.opts.Log.Infof("Service ports share proxy port %d (%s): proxyPortRange (%s) or the limit of open files allows no "+
		"more listeners", f.port, key.family, c.opts.Ports)
	return f, nil
}

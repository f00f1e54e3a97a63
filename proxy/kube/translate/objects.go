package translate

import (
	"maps"
	"slices"

	"github.com/portald/portald/portal/service"
)

// How a Cache stores one object, under its lock: each func adds the Services concerned to changed.

func (c *Cache) put(object Object, changed names) {
	switch o := object.(type) {
	case *trimmedService:
		c.serviceEvents++
		c.putService(o, changed)
	case *trimmedSlice:
		c.sliceEvents++
		c.putSlice(o, changed)
	case *trimmedNode:
		if o.id.Name == c.opts.NodeName {
			c.node = o
			c.setZone(o.node.Zone, changed)
		}
	case *trimmedServiceCIDR:
		c.ranges[o.id] = o
	case *trimmedPod:
		if c.opts.ClientPods {
			c.clients.put(o)
		}
	}
}

// putService stores a Service. One that is not served (any more) is removed.
func (c *Cache) putService(o *trimmedService, changed names) {
	if !o.served {
		c.removeService(o.id, changed)
		return
	}
	name := o.id.service()
	e := c.entry(name)
	o = c.inForce(name, o)
	c.conflicts.setService(name, e.svc, o, changed)
	if e.svc != nil {
		c.annotated(name, e.svc.annotations, o.annotations)
	}
	e.svc = o
	changed.add(name)
}

// inForce returns what is to be served of a Service now, and has it changed when its time is over.
func (c *Cache) inForce(name service.Name, written *trimmedService) *trimmedService {
	if written.debug == nil {
		c.deadlines.end(name)
		return written
	}
	if !c.deadlines.begin(name, written.debug.until, func() { c.debugDue(name, written) }) {
		return written
	}
	return written.debug.instead
}

// debugDue ends the debugging of a Service if its time has come, unless the Service has changed meanwhile.
func (c *Cache) debugDue(name service.Name, written *trimmedService) {
	c.change(func(changed names) {
		e := c.entries[name]
		if e == nil || e.svc != written.debug.instead {
			return
		}
		if now := c.inForce(name, written); now != e.svc {
			c.conflicts.setService(name, e.svc, now, changed)
			e.svc = now
			changed.add(name)
		}
	})
}

// annotated tells which annotations of a Service have changed.
func (c *Cache) annotated(of service.Name, old, new map[string]string) {
	if c.Annotated == nil || maps.Equal(old, new) {
		return
	}
	keys := maps.Clone(old)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, new)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if old[key] != new[key] {
			c.Annotated(of, key, old[key], new[key])
		}
	}
}

func (c *Cache) putSlice(o *trimmedSlice, changed names) {
	before := c.slices[o.id]
	if before != nil && before.owner != o.owner {
		c.removeSlice(before, changed)
		before = nil
	}
	if o.owner.Name == "" {
		return // it belongs to no Service
	}
	e := c.entry(o.owner)
	at, has := slices.BinarySearchFunc(e.slices, o, compareSlices)
	if has {
		e.slices[at] = o
	} else {
		e.slices = slices.Insert(e.slices, at, o)
	}
	c.conflicts.setSlice(before, o)
	c.learnZones(before, o)
	c.slices[o.id] = o
	changed.add(o.owner)
	// Changes from before the start do not measure how fast this daemon is; nor does a time that was counted already.
	if o.triggered.After(c.started) && (before == nil || !before.triggered.Equal(o.triggered)) {
		e.triggered = append(e.triggered, o.triggered)
	}
}

// setZone sets this node's zone, which changes what zone hints mean for every Service.
func (c *Cache) setZone(zone string, changed names) {
	if c.zone == zone {
		return
	}
	c.zone = zone
	for name := range c.entries {
		changed.add(name)
	}
}

// SetClientAddress sets what Services have that set no client address: those that the kernel carries are reported, if
// it cannot do that.
func (c *Cache) SetClientAddress(a service.ClientAddress) {
	c.change(func(changed names) {
		if c.address == a {
			return
		}
		c.address = a
		for name, e := range c.entries {
			if e.svc != nil && e.svc.noHeader {
				changed.add(name)
			}
		}
	})
}

func (c *Cache) remove(key Key, changed names) {
	switch key.Kind {
	case KindService:
		if c.removeService(key, changed) {
			c.serviceEvents++
		}
	case KindEndpointSlice:
		if o := c.slices[key]; o != nil {
			c.sliceEvents++
			c.removeSlice(o, changed)
		}
	case KindNode:
		if key.Name == c.opts.NodeName {
			c.node = nil // the zone is kept: the host has not moved
		}
	case KindServiceCIDR:
		delete(c.ranges, key)
	case KindPod:
		c.clients.remove(key)
	}
}

func (c *Cache) removeService(key Key, changed names) bool {
	name := key.service()
	e := c.entries[name]
	if e == nil || e.svc == nil {
		return false
	}
	c.conflicts.setService(name, e.svc, nil, changed)
	c.deadlines.end(name)
	e.svc = nil
	changed.add(name)
	return true
}

// learnZones is called with two states of a slice, of which one may be nil.
func (c *Cache) learnZones(before, next *trimmedSlice) {
	if !c.opts.ClientPods {
		return
	}
	var old, now []sliceEndpoint
	if before != nil {
		old = before.endpoints
	}
	if next != nil {
		now = next.endpoints
	}
	c.clients.learn(old, now)
}

func (c *Cache) removeSlice(o *trimmedSlice, changed names) {
	c.learnZones(o, nil)
	c.conflicts.setSlice(o, nil)
	delete(c.slices, o.id)
	e := c.entries[o.owner]
	e.slices = slices.DeleteFunc(e.slices, func(s *trimmedSlice) bool { return s.id == o.id })
	changed.add(o.owner)
}

func (c *Cache) entry(name service.Name) *entry {
	e := c.entries[name]
	if e == nil {
		e = &entry{}
		c.entries[name] = e
	}
	return e
}

// version is the resource version of a stored object, empty when it is not stored.
func (c *Cache) version(key Key) string {
	switch key.Kind {
	case KindService:
		if e := c.entries[key.service()]; e != nil && e.svc != nil {
			return e.svc.resourceVersion
		}
	case KindEndpointSlice:
		if o := c.slices[key]; o != nil {
			return o.resourceVersion
		}
	case KindNode:
		if c.node != nil && c.node.id == key {
			return c.node.resourceVersion
		}
	case KindServiceCIDR:
		if r := c.ranges[key]; r != nil {
			return r.resourceVersion
		}
	case KindPod:
		if p := c.clients.pods[key]; p != nil {
			return p.resourceVersion
		}
	}
	return ""
}

// keys returns the keys of the stored objects of a kind.
func (c *Cache) keys(kind Kind) (out []Key) {
	switch kind {
	case KindService:
		for _, e := range c.entries {
			if e.svc != nil {
				out = append(out, e.svc.id)
			}
		}
	case KindEndpointSlice:
		for key := range c.slices {
			out = append(out, key)
		}
	case KindNode:
		if c.node != nil {
			out = append(out, c.node.id)
		}
	case KindServiceCIDR:
		for key := range c.ranges {
			out = append(out, key)
		}
	case KindPod:
		for key := range c.clients.pods {
			out = append(out, key)
		}
	}
	return out
}

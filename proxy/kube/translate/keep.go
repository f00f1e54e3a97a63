package translate

import (
	"slices"

	"github.com/portald/portald/proxy/service"
)

// What a Cache does with one object, under its lock: each func adds the Services that are concerned to t.

func (c *Cache) put(object Object, t touched) {
	switch o := object.(type) {
	case *trimmedService:
		c.serviceEvents++
		c.putService(o, t)
	case *trimmedSlice:
		c.sliceEvents++
		c.putSlice(o, t)
	case *trimmedNode:
		if o.id.Name == c.opts.NodeName {
			c.node = o
			c.setZone(o.node.Zone, t)
		}
	}
}

// putService keeps a Service. One that is not served (any more) is not kept.
func (c *Cache) putService(o *trimmedService, t touched) {
	if !o.served {
		c.removeService(o.id, t)
		return
	}
	name := service.Name{Namespace: o.id.Namespace, Name: o.id.Name}
	owner := c.owner(name)
	c.crossings.serve(name, owner.svc, o, t)
	owner.svc = o
	t[name] = struct{}{}
}

func (c *Cache) putSlice(o *trimmedSlice, t touched) {
	before := c.slices[o.id]
	if before != nil && before.owner != o.owner {
		c.removeSlice(before, t)
		before = nil
	}
	if o.owner.Name == "" {
		return // some other program's slice
	}
	owner := c.owner(o.owner)
	at, has := slices.BinarySearchFunc(owner.slices, o, compareSlices)
	if has {
		owner.slices[at] = o
	} else {
		owner.slices = slices.Insert(owner.slices, at, o)
	}
	c.crossings.back(before, o)
	c.slices[o.id] = o
	t[o.owner] = struct{}{}
	// What happened before we began says nothing about how fast we are; nor does a time that was counted already.
	if o.triggered.After(c.began) && (before == nil || !before.triggered.Equal(o.triggered)) {
		owner.triggered = append(owner.triggered, o.triggered)
	}
}

// setZone makes zone this node's. Hints for zones then mean something else for every Service.
func (c *Cache) setZone(zone string, t touched) {
	if c.zone == zone {
		return
	}
	c.zone = zone
	for name := range c.owners {
		t[name] = struct{}{}
	}
}

func (c *Cache) remove(key Key, t touched) {
	switch key.Kind {
	case KindService:
		if c.removeService(key, t) {
			c.serviceEvents++
		}
	case KindEndpointSlice:
		if o := c.slices[key]; o != nil {
			c.sliceEvents++
			c.removeSlice(o, t)
		}
	case KindNode:
		if key.Name == c.opts.NodeName {
			c.node = nil // its zone stays: the host has not moved
		}
	}
}

func (c *Cache) removeService(key Key, t touched) bool {
	name := service.Name{Namespace: key.Namespace, Name: key.Name}
	o := c.owners[name]
	if o == nil || o.svc == nil {
		return false
	}
	c.crossings.serve(name, o.svc, nil, t)
	o.svc = nil
	t[name] = struct{}{}
	return true
}

func (c *Cache) removeSlice(o *trimmedSlice, t touched) {
	c.crossings.back(o, nil)
	delete(c.slices, o.id)
	owner := c.owners[o.owner]
	owner.slices = slices.DeleteFunc(owner.slices, func(s *trimmedSlice) bool { return s.id == o.id })
	t[o.owner] = struct{}{}
}

func (c *Cache) owner(name service.Name) *owner {
	o := c.owners[name]
	if o == nil {
		o = &owner{}
		c.owners[name] = o
	}
	return o
}

// version is that of an object as it is kept, empty when it is not.
func (c *Cache) version(key Key) string {
	switch key.Kind {
	case KindService:
		if o := c.owners[service.Name{Namespace: key.Namespace, Name: key.Name}]; o != nil && o.svc != nil {
			return o.svc.resourceVersion
		}
	case KindEndpointSlice:
		if o := c.slices[key]; o != nil {
			return o.resourceVersion
		}
	case KindNode:
		if c.node != nil && c.node.id == key {
			return c.node.resourceVersion
		}
	}
	return ""
}

// keys are those of the objects of a kind that are kept.
func (c *Cache) keys(kind Kind) (out []Key) {
	switch kind {
	case KindService:
		for _, o := range c.owners {
			if o.svc != nil {
				out = append(out, o.svc.id)
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
	}
	return out
}

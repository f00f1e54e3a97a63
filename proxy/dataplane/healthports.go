package dataplane

import (
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// healthPorts has the health-check ports of Services, to which the Writer is to let flows in, and what it was not told
// yet. All ports of a Service have the same one.
type healthPorts struct {
	of      map[service.PortName]uint16
	users   map[uint16]int
	changed map[uint16]bool // whether it was open when it was told last
}

func newHealthPorts() *healthPorts {
	return &healthPorts{map[service.PortName]uint16{}, map[uint16]int{}, map[uint16]bool{}}
}

// set sets the one of a service port, 0 for none.
func (c *healthPorts) set(name service.PortName, port uint16) {
	was := c.of[name]
	if was == port {
		return
	}
	c.use(was, -1)
	c.use(port, 1)
	if c.of[name] = port; port == 0 {
		delete(c.of, name)
	}
}

func (c *healthPorts) use(port uint16, n int) {
	if port == 0 {
		return
	}
	if _, known := c.changed[port]; !known {
		c.changed[port] = c.users[port] > 0
	}
	if c.users[port] += n; c.users[port] == 0 {
		delete(c.users, port)
	}
}

// flush tells a Writer what has changed, if it is one that can let flows in. False: nothing has.
func (c *healthPorts) flush(w portal.Writer) bool {
	changed := map[uint16]bool{}
	for port, was := range c.changed {
		if open := c.users[port] > 0; open != was {
			changed[port] = open
		}
	}
	c.changed = map[uint16]bool{}
	if !w.Features().Opens || len(changed) == 0 {
		return false
	}
	w.Open(changed)
	return true
}

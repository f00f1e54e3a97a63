package explain

import "github.com/portald/portald/portal/service"

// bufferFull reports datagrams that a receive buffer of portald had no room for: it did not read as fast as they came.
func (e *explained) bufferFull() {
	lost := e.BufferFull
	if lost.Packets == 0 {
		return
	}
	text := count(int(lost.Packets), "datagram") + " lost from " + clock(lost.Since) + " to " + clock(lost.Until) +
		" UTC: a receive buffer of portald was full"
	if mode, _ := modeOf(e.Port, e.node); !lost.Lately || mode != service.ModeUserspace {
		e.add(Fact, nil, "%s", text)
		return
	}
	e.add(Doubt, nil, "%s", text)
	e.find(Doubt, "kubectl annotate service -n "+e.Port.Name.Namespace+" "+e.Port.Name.Name+" portald.io/mode=kernel",
		"Datagrams of %s are lost because portald does not read as fast as they come. The kernel can carry them.", e.label())
}

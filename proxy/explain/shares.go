package explain

import (
	"fmt"
	"net/netip"
	"strings"
)

// shares reports the limits of connections of each client, and of new connections a second.
func (e *explained) shares() {
	s := e.Port.Policy.Or(e.node.Policy).Shares
	if s.MaxConnectionsPerClient > 0 {
		e.places(s.MaxConnectionsPerClient)
	}
	var rates []string
	if s.ConnectionRate > 0 {
		rates = append(rates, fmt.Sprintf("at most %d new connections a second are served of each family", s.ConnectionRate))
	}
	if s.ConnectionRatePerClient > 0 {
		of := "of one client address"
		if len(rates) == 0 {
			of = "new connections a second are served of one client address"
		}
		rates = append(rates, fmt.Sprintf("at most %d %s", s.ConnectionRatePerClient, of))
	}
	if len(rates) > 0 {
		e.add(Fact, nil, "%s", strings.Join(rates, ", "))
	}
}

// places reports the connections of the client that was asked for, else of the one that has the most.
func (e *explained) places(most int) {
	client, status := e.query.From, Wrong
	if !client.IsValid() {
		client, status = e.heaviest(), Doubt // others are served
	}
	open := e.OpenOf[client]
	switch {
	case !client.IsValid():
		e.add(Good, nil, "at most %d connections of each client address are open", most)
	case open < most:
		e.add(Good, nil, "%s has %d of at most %d connections of one client open", client, open, most)
	default:
		e.add(status, nil, "%s has %d connections open, and may have %d", client, open, most)
		e.find(status, "portald conns "+e.flag()+" --ip "+client.String(),
			"%s has as many connections to %s as one client may have, %d: it is refused new ones.", client, e.label(), most)
	}
}

// heaviest is the client with the most connections, zero if there are none.
func (e *explained) heaviest() (client netip.Addr) {
	for c, n := range e.OpenOf {
		if most := e.OpenOf[client]; n > most || n == most && c.Less(client) {
			client = c
		}
	}
	return client
}

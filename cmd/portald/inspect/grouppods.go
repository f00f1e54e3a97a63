package inspect

import (
	"net/netip"

	"github.com/portald/portald/proxy/connlog"
)

// dialled is the endpoint of a record, or if there is none the last that was dialled for it: its dials failed there.
func dialled(l *connlog.Line) netip.AddrPort {
	if n := len(l.Attempts); n > 0 && !l.Endpoint.IsValid() {
		return l.Attempts[n-1].Endpoint
	}
	return l.Endpoint
}

// podsAt are the pods that had an endpoint, as other connections and records say; empty: there was more than one.
type podsAt map[netip.AddrPort]string

func (p podsAt) learn(at netip.AddrPort, pod string) {
	if pod == "" {
		return
	}
	if other, known := p[at]; known && other != pod {
		pod = ""
	}
	p[at] = pod
}

// namePods adds what failed at an endpoint to its pod. An endpoint of which no pod is known is a group of its own.
func (g *groups) namePods() {
	if g.by != byPod {
		return
	}
	for key, one := range g.all {
		at, err := netip.ParseAddrPort(key[1])
		if err != nil {
			continue // it has its name
		}
		if to := g.all[[2]string{g.at[at], ""}]; g.at[at] != "" && to != nil {
			to.add(one)
			delete(g.all, key)
		} else {
			one.Name = key[1]
		}
	}
}

// add adds another group.
func (g *grouped) add(o *grouped) {
	g.Count += o.Count
	g.Failed += o.Failed
	g.BytesUp += o.BytesUp
	g.BytesDown += o.BytesDown
	g.durations = append(g.durations, o.durations...)
	g.connects = append(g.connects, o.connects...)
}

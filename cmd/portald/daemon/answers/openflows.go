package answers

import (
	"context"
	"net/netip"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
)

// OpenFlows counts the connections that the kernel carries now. It lists the conntrack table for that, which may have
// millions of entries.
type OpenFlows struct {
	recorder *flows.Recorder
	log      logrus.FieldLogger
	counts   *Seldom[openCounts]
}

// openCounts are by service port; nil: they are not known.
type openCounts map[service.PortName]*openCount

type openCount struct {
	n                        int
	fromClient, fromEndpoint uint64 // bytes
	endpoints                map[netip.AddrPort]openEndpoint
}

type openEndpoint struct {
	service.Endpoint
	n int
}

// NewOpenFlows returns one that counts what a Recorder lists.
func NewOpenFlows(recorder *flows.Recorder, log logrus.FieldLogger) *OpenFlows {
	return &OpenFlows{recorder: recorder, log: log, counts: NewSeldom[openCounts]()}
}

// count returns what is open, nil if that cannot be told in time. It is not to be changed.
func (o *OpenFlows) count(ctx context.Context) openCounts { return o.counts.Get(ctx, o.list) }

func (o *OpenFlows) list(ctx context.Context) openCounts {
	all := openCounts{}
	for live, err := range o.recorder.Open(ctx) {
		if err != nil {
			o.log.WithError(err).Warn("How many connections the kernel carries is not known")
			return nil
		}
		of := all[live.Service]
		if of == nil {
			of = &openCount{endpoints: map[netip.AddrPort]openEndpoint{}}
			all[live.Service] = of
		}
		of.n++
		of.fromClient += uint64(live.BytesFromClient)
		of.fromEndpoint += uint64(live.BytesFromEndpoint)
		of.endpoints[live.Endpoint.Addr] = openEndpoint{live.Endpoint, of.endpoints[live.Endpoint.Addr].n + 1}
	}
	return all
}

// of returns the counts of a service port, which are not to be changed.
func (c openCounts) of(name service.PortName) *openCount {
	if one := c[name]; one != nil {
		return one
	}
	return &openCount{}
}

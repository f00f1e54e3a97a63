package answers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/portald/portald/platform/packetfilter"
	"github.com/portald/portald/platform/packets"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/capture"
	"github.com/portald/portald/proxy/record"
)

// capturer captures packets of what the parts of a daemon carry.
type capturer struct{ parts *Options }

// socketRoom is what the kernel keeps of packets that were not read yet.
const socketRoom = 8 << 20

// capture implements adminsocket.Daemon.Capture.
func (c capturer) capture(
	ctx context.Context, r *capture.Request, begin func() (*capture.Writer, error),
) error {
	return capture.Run(ctx, &capture.Node{
		Open: open, Name: packets.InterfaceOf, Ports: c.ports, Own: c.parts.Own,
		Subscribe: c.parts.Core.Subscribe, Live: c.parts.Core.All, Translated: c.parts.Flows.Translated, Ended: c.ended,
	}, r, func() (*capture.Writer, error) {
		c.parts.Log.WithField("targets", r.Targets).WithField("payload", r.Payload).
			Info("Packets are captured, as a client of the admin socket asks")
		return begin()
	})
}

func open(program packetfilter.Program) (capture.Source, error) {
	s, err := packets.Open(packets.Options{Program: program, Buffer: socketRoom})
	if errors.Is(err, packets.ErrCapability) {
		return nil, fmt.Errorf("%w, which this portald does not have: add it with capture: true in the values of the Helm "+
			"chart, or with the kustomize component capture; the systemd unit of the package has it", err)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ports returns the service ports whose names are wanted, as they are carried now.
func (c capturer) ports(wanted func(string) bool) (all []capture.Port) {
	i := c.parts.Inventory
	for _, p := range i.wanted(wanted) {
		port := capture.Port{Port: p, Kernel: i.isKernel(p)}
		for _, x := range p.Exposures {
			at := i.PortalAt(x.Frontend)
			if at == nil || at.Owner != p.Name {
				continue
			}
			if to, ok := at.Target.(portal.Redirect); ok {
				port.ProxyPorts = append(port.ProxyPorts, to.Port)
			}
		}
		slices.Sort(port.ProxyPorts)
		port.ProxyPorts = slices.Compact(port.ProxyPorts)
		all = append(all, port)
	}
	return all
}

// ended calls each for the records of what the kernel carried.
func (c capturer) ended(each func(*record.Record)) (cancel func()) {
	follower := c.parts.Records.Follow(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			r, _, err := follower.Next(context.Background())
			if err != nil {
				return
			}
			if r.CarriedBy == record.Kernel {
				each(r)
			}
		}
	}()
	return func() {
		follower.Close()
		<-done
	}
}

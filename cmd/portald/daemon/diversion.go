package daemon

import (
	"net/netip"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// diversion delivers replies of endpoints to clients' own addresses to this host, so that the daemon can dial from
// these addresses. Safe for concurrent use.
type diversion struct {
	divert platform.Divert
	writer portal.HostWriter
	paths  *platform.Paths
	log    logrus.FieldLogger
	once   sync.Once
}

// enable adds the diversion, which stays until the daemon ends. It is called for the first service port that asks for
// transparent dials, since its rules match every packet of the host. It returns true the first time: the writer sets
// the mark once all rules are written again.
func (d *diversion) enable() (first bool) {
	d.once.Do(func() {
		first = true
		if err := d.add(); err != nil {
			d.log.WithError(err).Warn("Endpoints see this node's address instead of the client's: replies " +
				"cannot be diverted")
			return
		}
		d.writer.SetMark(d.divert.Mark)
		d.log.Info("Endpoints see the client's address where a Service asks for it: replies are diverted to " +
			"this host")
	})
	return first
}

func (d *diversion) add() error {
	err := d.divert.Add(inet.IPv4)
	if err == nil && d.writer.IPv6() {
		err = d.divert.Add(inet.IPv6)
	}
	return err
}

// returns implements splice.Options.Returns: replies do not come back before they are diverted.
func (d *diversion) returns(client, endpoint netip.Addr, iface int) bool {
	return d.writer.Diverts(inet.FamilyOf(client)) && d.paths.Returns(client, endpoint, iface)
}

// returnsKnown implements splice.Options.ReturnsKnown.
func (d *diversion) returnsKnown(client, endpoint netip.Addr, iface int) (returns, known bool) {
	if !d.writer.Diverts(inet.FamilyOf(client)) {
		return false, true
	}
	return d.paths.ReturnsKnown(client, endpoint, iface)
}

package hostinfo

import (
	"net/netip"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// Diversion delivers replies of endpoints to clients' own addresses to this host, so that the daemon can dial from
// these addresses. Safe for concurrent use.
type Diversion struct {
	divert platform.Divert
	writer portal.Writer
	paths  *platform.Paths
	log    logrus.FieldLogger
	once   sync.Once
}

// NewDiversion returns one that is not enabled.
func NewDiversion(divert platform.Divert, writer portal.Writer, h *Host, log logrus.FieldLogger) *Diversion {
	return &Diversion{divert: divert, writer: writer, paths: h.paths, log: log}
}

// Enable adds the diversion, which stays until the daemon ends. It is called for the first service port that asks for
// transparent dials, since its rules match every packet of the host. It returns true the first time: the writer sets
// the mark once all rules are written again.
func (d *Diversion) Enable() (first bool) {
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

func (d *Diversion) add() error {
	err := d.divert.Add(inet.IPv4)
	if err == nil && d.writer.Features().IPv6 {
		err = d.divert.Add(inet.IPv6)
	}
	return err
}

// Returns implements splice.Options.Returns: replies do not come back before they are diverted.
func (d *Diversion) Returns(client, endpoint netip.Addr, iface int) bool {
	return d.writer.Diverts(inet.FamilyOf(client)) && d.paths.Returns(client, endpoint, iface)
}

// ReturnsKnown implements splice.Options.ReturnsKnown.
func (d *Diversion) ReturnsKnown(client, endpoint netip.Addr, iface int) (returns, known bool) {
	if !d.writer.Diverts(inet.FamilyOf(client)) {
		return false, true
	}
	return d.paths.ReturnsKnown(client, endpoint, iface)
}

package userspace

import (
	"net/netip"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
)

// drains ends the drains of endpoints when there is no more reason for them, and says so in the log.
type drains struct {
	endpoints *balance.Endpoints
	log       logrus.FieldLogger
}

// renew ends the drains of endpoints whose pods are gone.
func (d drains) renew(p *service.Port) {
	d.ended(p.Name, d.endpoints.Renew(p.Name, p.Endpoints), "its pod is gone")
}

// end ends the drains of a service port that is no longer carried here.
func (d drains) end(left service.Change) {
	why := "its Service is gone"
	if left.Port != nil {
		why = "the kernel carries its Service now"
	}
	d.ended(left.Name, d.endpoints.UndrainAll(left.Name), why)
}

func (d drains) ended(name service.PortName, endpoints []netip.AddrPort, why string) {
	for _, at := range endpoints {
		d.log.WithField("service", name.Label()).WithField("endpoint", at.String()).
			Warn("Endpoint undrained: ")
	}
}

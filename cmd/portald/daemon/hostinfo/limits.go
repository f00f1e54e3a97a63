package hostinfo

import (
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// RaiseNoFile raises the limit of open descriptors and returns it.
func RaiseNoFile(log logrus.FieldLogger, version string) uint64 {
	soft, hard, err := platform.RaiseNoFile()
	if err != nil {
		log.WithError(err).Warn("Cannot raise the limit of open descriptors")
	}
	log.Infof("portald %s: up to %d open descriptors (hard limit %d), two for each connection", version, soft, hard)
	return soft
}

// ReservedPorts returns the local ports that the host reserves for servers.
func ReservedPorts(log logrus.FieldLogger) []inet.PortRange {
	ranges, err := platform.ReservedPorts()
	if err != nil {
		log.WithError(err).Warn("Cannot read the reserved local ports: connections to endpoints may use them")
	}
	return ranges
}

// DialMark returns the mark of packets to endpoints, 0 where this process may not set it.
func DialMark(log logrus.FieldLogger) uint32 {
	mark := uint32(portal.DefaultDials)
	err := platform.MayMark(mark)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0 // nothing redirects what the daemon dials either
	}
	if err != nil {
		log.WithError(err).Warn("Cannot mark connections to endpoints, which takes the capability NET_ADMIN: an " +
			"endpoint that is a Service's own address makes portald dial itself, up to the limit of open " +
			"descriptors")
		return 0
	}
	return mark
}

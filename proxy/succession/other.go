//go:build !linux

package succession

import (
	"context"
	"net/netip"
	"os"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/succession/handover"
)

// Keeper is nil: no keeper is looked for.
type Keeper struct{}

// FindKeeper finds none.
func FindKeeper(string, handover.Identity, *metrics.Metrics, logrus.FieldLogger) *Keeper { return nil }

// Places is 0.
func (k *Keeper) Places() int { return 0 }

// SocketChanged does nothing.
func (k *Keeper) SocketChanged(service.PortName, netip.AddrPort) {}

// Bye does nothing.
func (k *Keeper) Bye() {}

// TakeOver begins at once: sockets are not passed on here.
func (s *Succession) TakeOver(context.Context) error {
	s.options.State.Begin()
	return nil
}

// HandOver hands over to nobody.
func (s *Succession) HandOver(context.Context) error { return nil }

// Keep gives nothing to a keeper.
func (s *Succession) Keep(context.Context) error { return nil }

// StoreForNext leaves nothing to the next daemon.
func (s *Succession) StoreForNext(context.Context) bool { return false }

// Announce has nobody to tell.
func (s *Succession) Announce(context.Context) error { return nil }

// ousted is false: there is no lock of the node.
func ousted(string, *os.File) bool { return false }

// answers and lockHeld are false: a daemon cannot tell.
func answers(string) bool  { return false }
func lockHeld(string) bool { return false }

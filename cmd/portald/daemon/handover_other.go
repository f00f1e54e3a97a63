//go:build !linux

package daemon

import (
	"context"
	"net/netip"
	"os"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal/service"
)

// takeOver begins at once: sockets are not passed on here.
func (d *daemon) takeOver(context.Context) error {
	d.heritage.begin()
	return nil
}

// keeping is nothing: no keeper is looked for.
type keeping struct{}

func (d *daemon) findKeeper(*config.Config) *keeping { return nil }

func (k *keeping) places() int { return 0 }

func (k *keeping) socketChanged(service.PortName, netip.AddrPort) {}

func (k *keeping) bye() {}

func (d *daemon) keepAll(context.Context) error { return nil }

// handOver hands over to nobody.
func (d *daemon) handOver(context.Context) error { return nil }

// ousted is false: there is no lock of the node.
func ousted(string, *os.File) bool { return false }

// othersServe is false: a daemon that ends cannot tell.
func othersServe(*config.Config) bool { return false }
func othersHold(*config.Config) bool  { return false }

// leave leaves nothing to the next daemon.
func (d *daemon) leave(context.Context) bool { return false }

// announce has nobody to tell.
func (d *daemon) announce(context.Context) error { return nil }

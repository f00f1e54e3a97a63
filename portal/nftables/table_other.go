//go:build !linux

package nftables

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/portald/portald/portal"
)

// table is none: nftables is Linux's.
type table struct {
	rules
	state   *state
	diverts atomic.Bool
}

// conn is none either.
type conn struct{ seen uint32 }

func dial() (*conn, error)                       { return nil, errors.ErrUnsupported }
func open(*conn, rules, Options) (*table, error) { return nil, errors.ErrUnsupported }
func (*conn) close() error                       { return nil }
func (*conn) observe() error                     { return errors.ErrUnsupported }
func (*conn) unchanged() (uint32, bool, error)   { return 0, false, errors.ErrUnsupported }

func (*table) replace(context.Context, []portal.Portal, map[portal.ProxyPort]bool) error {
	return errors.ErrUnsupported
}
func (*table) update(context.Context, []portal.Change) error { return errors.ErrUnsupported }
func (*table) cleanup(context.Context) error                 { return errors.ErrUnsupported }
func (*table) audit(context.Context) error                   { return errors.ErrUnsupported }

// Present tells that nothing is here.
func (*Writer) Present(context.Context) (bool, error) { return false, nil }

//go:build !linux

package nfnl

import (
	"errors"

	"github.com/mdlayher/netlink"
)

// Only Linux has nf_tables: Dial fails.

func dial() (*netlink.Conn, error) { return nil, errors.ErrUnsupported }

func (*Conn) maxMessage() (int, error) { return 0, errors.ErrUnsupported }
func (*Conn) growDumps() error         { return errors.ErrUnsupported }
func (*Conn) discardAnswers() error    { return errors.ErrUnsupported }

// Kernel names the running kernel.
func Kernel() string { return "this kernel" }

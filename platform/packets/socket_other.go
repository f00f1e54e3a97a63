//go:build !linux

package packets

import (
	"errors"
	"time"

	"github.com/portald/portald/platform/packetfilter"
)

// Socket receives packets, on Linux alone.
type Socket struct{}

// Open fails.
func Open(Options) (*Socket, error) {
	return nil, errors.New("packets can be captured on Linux alone; on Windows pktmon captures them")
}

// Read receives nothing.
func (*Socket) Read(time.Duration, func(*Frame)) error { return nil }

// Drops are none.
func (*Socket) Drops() Drops { return Drops{} }

// Close does nothing.
func (*Socket) Close() error { return nil }

// InterfaceOf names the interface of a frame.
func InterfaceOf(f *Frame) Interface { return Interface{Index: f.Interface, Link: f.Link} }

// SetProgram does nothing.
func (*Socket) SetProgram(packetfilter.Program) error { return nil }

//go:build !linux

package pipe

import (
	"errors"
	"syscall"

	"github.com/portald/portald/proxy/quota"
)

// Supported tells whether this system has such pipes.
const Supported = false

// Pipe is none: only Linux has splice(2).
type Pipe struct{}

// Open returns an error.
func Open(*quota.Account) (Pipe, error) { return Pipe{}, errors.ErrUnsupported }

// Size is 0.
func (Pipe) Size() int { return 0 }

// Fill is never called.
func (Pipe) Fill(int) (int, syscall.Errno) { return 0, syscall.EINVAL }

// Drain is never called.
func (Pipe) Drain(int, int) (int, syscall.Errno) { return 0, syscall.EINVAL }

// Close is never called.
func (Pipe) Close() {}

// Unspliceable is never called.
func Unspliceable(int) bool { return true }

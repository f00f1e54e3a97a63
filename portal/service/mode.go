package service

import "github.com/portald/portald/platform/inet"

// Mode is how a service port is carried.
type Mode uint8

// The modes.
const (
	ModeDefault   Mode = iota // the daemon's
	ModeUserspace             // by a listener of the daemon's, with retries and records
	ModeKernel                // by the kernel alone
)

// String is the word that settings use.
func (m Mode) String() string {
	switch m {
	case ModeUserspace:
		return "userspace"
	case ModeKernel:
		return "kernel"
	}
	return ""
}

// ParseMode reads the word that String writes; false when it is none.
func ParseMode(word string) (Mode, bool) {
	for _, m := range []Mode{ModeUserspace, ModeKernel} {
		if word == m.String() {
			return m, true
		}
	}
	return ModeDefault, false
}

// Carries tells whether a mode, not ModeDefault, carries a protocol: listeners have TCP and UDP alone.
func (m Mode) Carries(p inet.Protocol) bool { return m == ModeKernel || p != inet.SCTP }

// Or is m, or the default where m leaves it open.
func (m Mode) Or(standard Mode) Mode {
	if m == ModeDefault {
		return standard
	}
	return m
}

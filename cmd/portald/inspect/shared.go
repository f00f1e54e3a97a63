package inspect

import (
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/connlog"
)

// The following is for portald top, which has a package of its own.

// ReadOnly puts a command into the group of commands that change nothing.
func ReadOnly(cmd *cobra.Command) *cobra.Command { return group(GroupReadOnly, cmd)[0] }

// Usage is the error of a command line that cannot be meant.
func Usage(format string, args ...any) error { return usage(format, args...) }

// OnTerminal tells whether an input or output is a terminal.
func OnTerminal(stream any) bool { return terminal(stream) != nil }

// Text is text that anybody may have written, made harmless for a terminal; "-" for none.
func Text(s string) string { return string(appendText(nil, s)) }

// Address is an address with its port, "-" for none.
func Address(a netip.AddrPort) string { return string(appendAddress(nil, a)) }

// Age is the time since a moment as kubectl writes it, "-" for no moment.
func Age(now, since time.Time) string { return string(appendAge(nil, now, since)) }

// Size is a number of bytes, in powers of 1000.
func Size(n int64) string { return string(appendSize(nil, n)) }

// Millis is a time in milliseconds with two significant digits or more, "-" for none.
func Millis(ms *float64) string { return string(appendIfAny(nil, ms)) }

// ID is the id of a record, "-" for none.
func ID(id uint64) string { return string(appendID(nil, id)) }

// Fields are a record as portald tail -o dict prints it.
func Fields(l *connlog.Line) string { return string(appendDict(nil, l)) }

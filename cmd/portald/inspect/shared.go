package inspect

import (
	"io"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect/cluster"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/explain"
)

// The following is for commands that have packages of their own: portald top, portald debug.

// ReadOnly puts a command into the group of commands that change nothing.
func ReadOnly(cmd *cobra.Command) *cobra.Command { return group(GroupReadOnly, cmd)[0] }

// Usage is the error of a command line that cannot be meant.
func Usage(format string, args ...any) error { return usage(format, args...) }

// FlagsOnly is for a command that takes no argument.
func FlagsOnly(cmd *cobra.Command, given []string) error { return flagsOnly(cmd, given) }

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

// Count is a count, "-" for nil, which is not known.
func Count[T int | uint64](n *T) string { return string(appendCount(nil, n)) }

// ID is the id of a record, "-" for none.
func ID(id uint64) string { return string(appendID(nil, id)) }

// Fields are a record as portald tail -o dict prints it.
func Fields(l *connlog.Line) string { return string(appendDict(nil, l)) }

// Compact is a record as portald tail prints it, a line with its end.
func Compact(l *connlog.Line, color bool) string { return string(appendCompact(nil, l, color)) }

// Colored tells whether an output is a terminal that is to have colours.
func Colored(out io.Writer) bool { return colored(out) }

// Reports are what several nodes say of one thing: see portald explain.
func Reports(out io.Writer, all []explain.Report, what string) []byte {
	return newSheet(out).reports(all, what)
}

// Nothing is the error of something that was named and is not there.
func Nothing(format string, args ...any) error { return nothing(format, args...) }

// Changing puts a command into the group of commands that change something.
func Changing(cmd *cobra.Command) *cobra.Command { return group(GroupChange, cmd)[0] }

// Services are those of the cluster, to be annotated.
func (d *Dial) Services() (*cluster.Services, error) {
	config, err := d.cluster.flags.Config()
	if err != nil {
		return nil, err
	}
	return cluster.NewServices(config)
}

// OnlyReads says that a command changes nothing of a daemon, whatever group it is in: it takes fewer rights then.
func (d *Dial) OnlyReads() { d.cluster.readOnly = func() bool { return true } }

// CompleteServices completes arguments by the names of Services.
var CompleteServices = completeArgs(completeServices())

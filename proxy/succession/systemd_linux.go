package succession

import (
	"context"
	"fmt"
	"os"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/systemd"
	"github.com/portald/portald/proxy/succession/handover"
)

// notifier tells systemd, and who has started this daemon, how far it is. Without systemd it tells nobody.
type notifier struct{ log logrus.FieldLogger }

// The names of what systemd stores between two runs: the ends of a handover.Stored.
const (
	storeOut = "portald-out"
	storeIn  = "portald-in"
)

// stored returns what the last run has left with systemd, nil for nothing.
func stored() *handover.Stored {
	passed := systemd.Passed()
	s := &handover.Stored{Out: passed[storeOut], In: passed[storeIn]}
	for name, f := range passed {
		if s.Out == nil || s.In == nil || f != s.Out && f != s.In {
			_ = f.Close() // no run of this program has left it
			delete(passed, name)
		}
	}
	if len(passed) == 0 {
		return nil
	}
	return s
}

// forgetStored has systemd pass it to no other run.
func (n notifier) forgetStored() { n.tell(systemd.Forget(storeOut, storeIn)) }

// announce tells systemd, and who has started this daemon, when it serves the node.
func (n notifier) announce(ctx context.Context, o *Options) error {
	n.status("Waiting for Services")
	for _, done := range []<-chan struct{}{o.State.serves, o.Ready} {
		select {
		case <-ctx.Done():
			return nil
		case <-done:
		}
	}
	// The process id is known to systemd unless this daemon has taken over at a reload.
	n.tell(systemd.Notify("READY=1", fmt.Sprintf("MAINPID=%d", os.Getpid()), "STATUS=Serves the node"))
	if o.Serving != nil {
		o.Serving()
	}
	return nil
}

// passOn has systemd watch a successor in place of this process, which may then end.
func (n notifier) passOn(s *handover.Successor) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return
	}
	if next, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.PID)); err == nil && string(own) == string(next) {
		n.tell(systemd.Notify(fmt.Sprintf("MAINPID=%d", s.PID)))
	}
}

// status has systemctl status show a line.
func (n notifier) status(line string) { n.tell(systemd.Notify("STATUS=" + line)) }

// tell logs that systemd could not be told something: nothing depends on it that cannot be done without.
func (n notifier) tell(err error) {
	if err != nil {
		n.log.WithError(err).Warn("Cannot notify systemd")
	}
}

package succession

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
	"github.com/portald/portald/proxy/userspace"
)

// Options are the parts of a daemon that are passed on, or that a hand-over stops and goes on with. All are needed but
// for Keeper and Serving.
type Options struct {
	Socket   string // where successors find this daemon; empty: none does
	Identity handover.Identity
	Required bool   // TakeOver fails unless there is a predecessor
	Serving  func() // called once this daemon serves the node
	Log      logrus.FieldLogger

	State     *State
	Keeper    *Keeper // nil: no keeper was there at the start
	Core      *splice.Core
	Listeners *userspace.Carrier
	Servers   *ServerSockets
	Store     *service.Store
	Records   *connlog.Stream
	Changes   *changes.Log
	Metrics   *metrics.Metrics

	Synced <-chan struct{} // closed once Store has the first complete state
	Ready  <-chan struct{} // closed once all rules have been written
	Lost   <-chan struct{} // closed once nothing is written any more, since another daemon serves the node

	Freeze        func(context.Context) (thaw func(), err error) // applies no change until thaw
	Resync        func(why string)                               // has all rules written again
	Queued        func()                                         // whatever changes from now on waits
	AwaitReplaced func(context.Context)                          // until the successor listens at the admin socket
	Yield         func()                                         // closes the daemon's servers, for another daemon's
	End           func(cause error)                              // ends the daemon
}

// HandshakeTime is how long after a hand-over connections may still arrive: a listener completes handshakes that it
// began, and a lost segment of one is sent again after a second.
const HandshakeTime = 1200 * time.Millisecond

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

package daemon

import (
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/epoll"
	"github.com/portald/portald/proxy/splice/goroutine"
	"github.com/portald/portald/proxy/succession"
)

const hasEpoll = true

func openEpoll(k *succession.Keeper, log logrus.FieldLogger) func(*splice.Core) (splice.Engine, error) {
	return k.Engine(eventLoops(log))
}

// openGoroutine opens the engine of goroutines with what Linux can do for it, and with one thread for small exchanges
// beside those that carry bulk.
func openGoroutine() func(*splice.Core) (splice.Engine, error) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	return goroutine.Open(goroutine.Host{
		Listening: platform.ListenOptions, Dialling: platform.DialOptions, BindTransparent: platform.BindTransparent,
		Interface: epoll.Interface, TCPInfo: epoll.TCPInfo, Queues: epoll.Queues, Unresponsive: epoll.Unresponsive,
		Receive: platform.Receive, Send: platform.Send, Error: platform.PendingError,
	})
}

// spareThreads run Go code beside the event loops, each of which keeps one thread to itself most of the time.
const spareThreads = 2

// eventLoops returns the number of event loops: one for each CPU that the Go runtime found at start, which are the
// host's, or fewer by CPU affinity, the CPU limit of cgroups, or the environment's GOMAXPROCS.
func eventLoops(log logrus.FieldLogger) int {
	loops := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(loops + spareThreads)
	log.Infof("%d event loops, one for each CPU that this process may use", loops)
	return loops
}

package goroutine_test

import (
	"testing"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/splice/epoll"
	"github.com/portald/portald/proxy/splice/goroutine"
	"github.com/portald/portald/proxy/splicetest"
)

// The engine with the calls that only Linux has.
func TestSuiteOnLinux(t *testing.T) {
	splicetest.Run(t, splicetest.Engine{
		Open: goroutine.Open(goroutine.Host{
			Listening: platform.ListenOptions, Dialling: platform.DialOptions, BindTransparent: platform.BindTransparent,
			Interface: epoll.Interface, TCPInfo: epoll.TCPInfo, Receive: platform.Receive, Send: platform.Send,
			Error: platform.PendingError, Queues: epoll.Queues, Unresponsive: epoll.Unresponsive,
		}),
		Can: splicetest.UrgentData | splicetest.ClientAddresses | splicetest.Marks | splicetest.Interfaces |
			splicetest.Refusals | splicetest.ResetsAfterEnd | splicetest.Inheritance |
			splicetest.TCPInfo | splicetest.DeadPeers | splicetest.Delivers,
	})
}

package epoll_test

import (
	"fmt"
	"testing"

	"github.com/portald/portald/proxy/splice/epoll"
	"github.com/portald/portald/proxy/splicetest"
)

// With one loop all connections share it; with several they move between loops.
func TestSuite(t *testing.T) {
	for _, loops := range []int{1, 2} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			splicetest.Run(t, splicetest.Engine{
				Open: epoll.Open(loops, nil, nil),
				Can: splicetest.UrgentData | splicetest.ClientAddresses | splicetest.Interfaces |
					splicetest.SourcePorts | splicetest.LocalPorts | splicetest.Marks |
					splicetest.Inheritance | splicetest.FailedPorts | splicetest.Undelivered |
					splicetest.Refusals | splicetest.ResetsAfterEnd | splicetest.TCPInfo |
					splicetest.Handover | splicetest.DeadPeers | splicetest.Delivers |
					splicetest.Drops,
			})
		})
	}
}

func TestMain(m *testing.M) { splicetest.Main(m) }

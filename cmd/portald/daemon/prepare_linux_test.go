package daemon

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/portal/service"
)

// Who has connections asked for a sign of life after the kernel has forgotten them is told what to set.
func TestCheckFlowTimeouts(t *testing.T) {
	for name, c := range map[string]struct {
		deadPeer, established time.Duration
		want                  string
	}{
		"as by default":       {service.DefaultDeadPeer, 24 * time.Hour, ""},
		"it is forgotten":     {service.DefaultDeadPeer, time.Minute, "tcpEstablishedTimeout"},
		"it is asked in time": {30 * time.Second, time.Minute, ""},
		"it is asked late":    {3 * time.Hour, time.Hour, "deadPeerTimeout 3h0m0s"},
		"no connection table": {service.DefaultDeadPeer, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			log, hook := test.NewNullLogger()
			checkFlowTimeouts(&service.Policy{DeadPeer: c.deadPeer}, func(kind string) (time.Duration, error) {
				if c.established == 0 || kind != "tcp_timeout_established" {
					return 0, os.ErrNotExist
				}
				return c.established, nil
			}, log)
			said := ""
			for _, e := range hook.AllEntries() {
				said += e.Message
			}
			if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("said %q, want %q", said, c.want)
			}
		})
	}
}

package daemon

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/proxy/service"
)

// Who asks for sessions or connections that last longer than the kernel knows of them is told what to set.
func TestCheckFlowTimeouts(t *testing.T) {
	kernel := map[string]time.Duration{"udp_timeout_stream": 2 * time.Minute, "tcp_timeout_established": 24 * time.Hour}
	for name, c := range map[string]struct {
		udp, deadPeer, established time.Duration
		want                       []string
	}{
		"as by default":       {time.Minute, service.DefaultDeadPeer, 24 * time.Hour, nil},
		"equal":               {2 * time.Minute, service.DefaultDeadPeer, 24 * time.Hour, nil},
		"UDP lasts longer":    {10 * time.Minute, service.DefaultDeadPeer, 24 * time.Hour, []string{"udpTimeout 10m0s"}},
		"TCP is forgotten":    {time.Minute, service.DefaultDeadPeer, time.Minute, []string{"tcpEstablishedTimeout"}},
		"it is asked in time": {time.Minute, 30 * time.Second, time.Minute, nil},
		"it is asked late":    {time.Minute, 3 * time.Hour, time.Hour, []string{"deadPeerTimeout 3h0m0s"}},
		"both": {time.Hour, service.DefaultDeadPeer, time.Second,
			[]string{"conntrack.udpStreamTimeout to 1h0m0s", "tcpEstablishedTimeout"}},
		"no connection table": {time.Hour, service.DefaultDeadPeer, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			log, hook := test.NewNullLogger()
			kernel["tcp_timeout_established"] = c.established
			checkFlowTimeouts(&service.Policy{UDPIdle: c.udp, DeadPeer: c.deadPeer},
				func(kind string) (time.Duration, error) {
					if c.established == 0 {
						return 0, os.ErrNotExist
					}
					return kernel[kind], nil
				}, log)
			said := hook.AllEntries()
			if len(said) != len(c.want) {
				t.Fatalf("said %v, want %v", said, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(said[i].Message, want) {
					t.Errorf("said %q, want %q", said[i].Message, want)
				}
			}
		})
	}
}

package daemon

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/kernel/flows"
)

// flowEventsBuffer is room for some 20,000 ends of flows: the kernel removes expired flows in bursts.
const flowEventsBuffer = 16 << 20

// openFlowEvents returns flows.Options.Open. Flows of IPVS do not have the mark of translated ones.
func openFlowEvents(ipvs bool) func(begins bool) (flows.Events, error) {
	return func(begins bool) (flows.Events, error) {
		return platform.OpenConntrackEvents(
			platform.ConntrackEventOptions{Begins: begins, Any: ipvs, Buffer: flowEventsBuffer})
	}
}

// listFlows returns flows.Options.List.
func listFlows(ipvs bool) func(context.Context, func([]byte) bool) error {
	return func(ctx context.Context, each func([]byte) bool) error { return platform.ListFlows(ctx, !ipvs, each) }
}

// accountFlows implements flows.Options.Account.
func accountFlows(log logrus.FieldLogger) (undo func(), timed bool) {
	a, err := platform.AccountFlows()
	if err != nil {
		log.WithError(err).Warn("Records of connections that the kernel carries lack bytes or times: run " +
			"portald --init-only with kernelRecords and the rights to set this")
	}
	for _, what := range a.Changed {
		log.Infof("Set %s", what)
	}
	undo = func() {
		if err := a.Undo(); err != nil {
			log.WithError(err).Warn("Cannot switch off the kernel's accounting of flows")
		}
	}
	return undo, a.Timed
}

// flowTimeouts implements flows.Options.Timeouts.
func flowTimeouts(log logrus.FieldLogger) (t flows.Timeouts) {
	for kind, to := range map[string]*time.Duration{
		"tcp_timeout_syn_sent":       &t.TCP[flows.SynSent],
		"tcp_timeout_syn_recv":       &t.TCP[flows.SynRecv],
		"tcp_timeout_established":    &t.TCP[flows.Established],
		"tcp_timeout_fin_wait":       &t.TCP[flows.FinWait],
		"tcp_timeout_close_wait":     &t.TCP[flows.CloseWait],
		"tcp_timeout_last_ack":       &t.TCP[flows.LastAck],
		"tcp_timeout_time_wait":      &t.TCP[flows.TimeWait],
		"tcp_timeout_close":          &t.TCP[flows.Closed],
		"sctp_timeout_closed":        &t.SCTP[flows.SCTPClosed],
		"sctp_timeout_cookie_wait":   &t.SCTP[flows.SCTPCookieWait],
		"sctp_timeout_cookie_echoed": &t.SCTP[flows.SCTPCookieEchoed],
		"sctp_timeout_established":   &t.SCTP[flows.SCTPEstablished],
		"udp_timeout":                &t.UDP,
		"udp_timeout_stream":         &t.UDPStream,
	} {
		var err error
		*to, err = platform.FlowTimeout(kind)
		if without := strings.HasPrefix(kind, "sctp_") && errors.Is(err, fs.ErrNotExist); err != nil && !without {
			log.WithError(err).Warn("Records of connections that the kernel carries may show too long a duration")
		}
	}
	t.TCP[flows.SynSent2] = t.TCP[flows.SynSent]
	return t
}

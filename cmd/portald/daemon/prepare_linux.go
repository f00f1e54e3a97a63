package daemon

import (
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/watch"
	"github.com/portald/portald/proxy/splice"
)

// Prepare sets the kernel's settings that need all of root's rights: all that --init-only does.
func Prepare(cfg *config.Config, log logrus.FieldLogger) error {
	return errors.Join(setConntrack(cfg, log), disableEarlyDemux(log), prepareRecords(cfg, log), prepareWriter(cfg, log))
}

// prepareWriter writes what the writer of rules needs: the daemon's own refuses to work without.
func prepareWriter(cfg *config.Config, log logrus.FieldLogger) error {
	changed, err := writers.Prepare(cfg)
	for _, what := range changed {
		log.Infof("Set %s", what)
	}
	return err
}

// prepareRecords has the kernel account flows where records of them are configured, for good: the daemon may lack the
// right to turn it on or off.
func prepareRecords(cfg *config.Config, log logrus.FieldLogger) error {
	if cfg.Settings.Policy.KernelRecords == service.RecordsOff {
		return nil
	}
	a, err := platform.AccountFlows()
	for _, what := range a.Changed {
		log.Infof("Set %s", what)
	}
	return err
}

func setConntrack(cfg *config.Config, log logrus.FieldLogger) error {
	c := cfg.Conntrack
	changed, err := platform.Conntrack{
		Max:            platform.ConntrackMax(c.MaxPerCore, c.Min, platform.CPUs()),
		TCPEstablished: c.TCPEstablished, TCPCloseWait: c.TCPCloseWait,
		UDP: c.UDP, UDPStream: c.UDPStream, TCPBeLiberal: c.TCPBeLiberal,
	}.Apply()
	for _, what := range changed {
		log.Infof("Set %s", what)
	}
	return err
}

// disableEarlyDemux makes redirected segments find the right sockets.
func disableEarlyDemux(log logrus.FieldLogger) error {
	changed, err := platform.DisableTCPEarlyDemux()
	if changed != "" {
		log.Infof("Set %s: this kernel may deliver a redirected connection to the socket of another one of its client",
			changed)
	}
	return err
}

// prepareNode does the same as far as this process may, and protects the process from the OOM killer. A host that
// serves manifests need be no node: nothing of it is changed.
func prepareNode(cfg *config.Config, events *watch.Recorder, log logrus.FieldLogger) {
	if cfg.Mode == service.ModeKernel {
		checkForwarding(log)
	}
	if len(cfg.Manifests) == 0 {
		prepareHost(cfg, events, log)
	}
	if cfg.Mode == service.ModeUserspace {
		checkFlowTimeouts(&cfg.Settings.Policy, platform.FlowTimeout, log)
	}
}

func prepareHost(cfg *config.Config, events *watch.Recorder, log logrus.FieldLogger) {
	if err := platform.SetOOMScore(cfg.OOMScoreAdj); err != nil {
		log.WithError(err).Warn("Cannot set the OOM score: portald may be killed like any other process when " +
			"memory runs out")
	}
	if err := setConntrack(cfg, log); err != nil {
		log.WithError(err).Warn("Cannot configure the conntrack table: run portald --init-only with the rights " +
			"to do so")
		events.NodeWarning("ConntrackNotSet", "SetConntrack", err.Error())
	}
	if err := disableEarlyDemux(log); err != nil {
		log.WithError(err).Warn("This kernel may lose one of two connections from one client port to two " +
			"addresses of a Service: run portald --init-only with the rights to prevent that")
	}
}

// checkFlowTimeouts warns if the kernel forgets what belongs to an open connection: see flowLife for sessions.
func checkFlowTimeouts(p *service.Policy, flowTimeout timeoutOf, log logrus.FieldLogger) {
	firstProbe := splice.KeepaliveFor(p.DeadPeer).Idle
	if kernel, err := flowTimeout("tcp_timeout_established"); err == nil && firstProbe >= kernel {
		log.Warnf("deadPeerTimeout %s: an idle TCP connection is asked for a sign of life after %s, and the kernel "+
			"forgets it after %s (net.netfilter.nf_conntrack_tcp_timeout_established): what comes later is lost; set "+
			"conntrack.tcpEstablishedTimeout to more", p.DeadPeer, firstProbe, kernel)
	}
}

// checkForwarding warns if the host does not forward what the kernel leads to endpoints.
func checkForwarding(log logrus.FieldLogger) {
	for _, family := range inet.Families() {
		if on, err := platform.Forwarding(family); err == nil && !on {
			log.Warnf("%s forwarding is off: clients on other hosts cannot reach endpoints on other hosts; set net.ipv%d.%s=1",
				family, [2]int{4, 6}[family], [2]string{"ip_forward", "conf.all.forwarding"}[family])
		}
	}
}

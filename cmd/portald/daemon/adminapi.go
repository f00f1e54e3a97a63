package daemon

import (
	"os"
	"time"

	"github.com/portald/portald/cmd/portald/daemon/answers"
	"github.com/portald/portald/proxy/adminsocket"
)

// newAdminAPI returns the handler of the admin API.
func newAdminAPI(
	version string, r *reconciler, src *source, of *kernelFlows, to *telemetry, problems *answers.Problems,
) *adminsocket.Handler {
	started, rules, path := time.Now(), r.rules, r.path
	cfg, log := rules.cfg, rules.log
	inventory := &answers.Inventory{
		Store: src.store, Mode: cfg.Mode, PortalAt: r.dataplane.PortalAt,
		Listeners: path.listeners, Totals: to.metrics.Totals,
		OpenBytes: path.core.OpenBytes, Problems: problems, Log: log,
	}
	explainer := answers.NewExplainer(answers.Facts{
		Config: cfg, Settings: r.settings, Host: rules.host, NodePorts: rules.nodePorts, Writer: rules.writer,
		Cache: src.cache, Core: path.core, Records: to.stream, Inventory: inventory,
		Loop: r.calls, Dataplane: r.dataplane, Stopwatch: r.stopwatch, ListFlows: listFlows(true),
	})
	info := func() adminsocket.Info {
		return adminsocket.Info{
			Version: version, API: adminsocket.Version, Node: cfg.NodeName, PID: os.Getpid(), Started: started,
			Mode: cfg.ProxyMode, Writer: cfg.Writer, LogLevel: log.GetLevel().String(),
			Ready: r.resyncs.isReady(), Instance: os.Getenv(adminsocket.InstanceVariable),
			Disturbances: r.disturbances.report(),
		}
	}
	return answers.NewHandler(answers.Options{
		Info: info, Core: path.core, Flows: of.recorder, Records: to.stream, Inventory: inventory, Explainer: explainer,
		Log: log,
	})
}

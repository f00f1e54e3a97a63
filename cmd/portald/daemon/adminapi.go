package daemon

import (
	"context"
	"os"
	"time"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/answers"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog/logfiles"
	"github.com/portald/portald/proxy/kernel/flows"
)

// newAdminAPI returns the handler of the admin API.
func newAdminAPI(
	version string, r *reconciler, src *source, of *kernelFlows, to *telemetry, problems *answers.Problems,
) *adminsocket.Handler {
	started, rules, path := time.Now(), r.rules, r.path
	cfg, log := rules.cfg, rules.log
	inventory := &answers.Inventory{
		Store: src.store, Mode: cfg.Mode, PortalAt: r.dataplane.PortalAt,
		Listeners: path.listeners, Totals: to.metrics.Totals, EndpointTCP: to.metrics.EndpointTCP,
		OpenBytes: path.core.OpenBytes, Open: path.core.All,
		OpenFlows: answers.NewOpenFlows(of.recorder, log), Ended: of.recorder.Ended,
		EachProblem: src.cache.EachProblem, Problems: problems, History: src.history, Log: log,
		Refused: func(ctx context.Context) answers.RefusedOf {
			if !rules.refusals.read(ctx) {
				return nil
			}
			return to.metrics.RefusedOf
		},
	}
	if tellsDrops(cfg.Engine) {
		inventory.ReceiveBufferFull = to.metrics.ReceiveBufferFullOf
	}
	explainer := answers.NewExplainer(answers.Facts{
		Config: cfg, Settings: r.settings, Host: rules.host, NodePorts: rules.nodePorts, Writer: rules.writer,
		Cache: src.cache, Core: path.core, Records: to.stream, Changes: src.history, Inventory: inventory,
		Loop: r.calls, Dataplane: r.dataplane, Stopwatch: r.stopwatch, ListFlows: listFlows(true),
		Timeouts: func() flows.Timeouts { return flowTimeouts(log) },
	})
	info := func() adminsocket.Info {
		return adminsocket.Info{
			Version: version, API: adminsocket.Version, Node: cfg.NodeName, PID: os.Getpid(), Started: started,
			Mode: cfg.ProxyMode, Writer: cfg.Writer, LogLevel: log.GetLevel().String(),
			Ready: r.resyncs.isReady(), Instance: os.Getenv(adminsocket.InstanceVariable),
			ServiceProxyName: cfg.ServiceProxyName,
			RecordsSince:     to.stream.Since().UTC(), ConnectionLog: cfg.ConnectionLog.Path,
			Disturbances: r.disturbances.report(),
		}
	}
	return answers.NewHandler(answers.Options{
		Info: info, Core: path.core, Flows: of.recorder, Records: to.stream, Files: filesOf(cfg), Changes: src.history,
		Inventory: inventory, Explainer: explainer, Log: log,
		Configuration: func() any {
			return map[string]any{"command_line": config.CommandLine(), "documents": cfg.Documents()}
		},
		Metrics: to.metrics.Handler(), Own: rules.host.Addresses.Contains,
	})
}

// filesOf are the files of the connection log, for records from before those in memory.
func filesOf(cfg *config.Config) logfiles.Log {
	to := cfg.ConnectionLog
	files := logfiles.Log{Path: to.Path, Format: to.Format}
	if to.Rotation.Rotates() {
		files.Keeps = to.Rotation.Files
	}
	return files
}

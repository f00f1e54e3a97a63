package daemon

import (
	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy/admin"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

// telemetry is what the data path reports to: metrics, the connection log, and warnings of shortages.
type telemetry struct {
	*stage
	metrics   *admin.Metrics
	records   *admin.ConnectionLog // nil without a path
	shortages *shortages
}

func newTelemetry(cfg *config.Config, log *logrus.Logger) (*telemetry, error) {
	t := &telemetry{metrics: admin.NewMetrics("IPv4", "IPv6")}
	t.shortages = newShortages(log, t.metrics)
	t.stage = newStage(t.shortages.run)
	to := cfg.ConnectionLog
	if to.Path == "" {
		return t, nil
	}
	records, err := admin.NewConnectionLog(admin.LogOptions{Path: to.Path, Format: to.Format, Log: log})
	if err != nil {
		return nil, err
	}
	t.records = records
	t.metrics.WatchLog(records)
	t.stage = newStage(t.shortages.run, records.Run)
	return t, nil
}

// observer implements splice.Options.Observe.
func (t *telemetry) observer(name service.PortName) splice.Observer {
	if t.records == nil {
		return t.metrics.Observer(name, nil)
	}
	return t.metrics.Observer(name, t.records)
}

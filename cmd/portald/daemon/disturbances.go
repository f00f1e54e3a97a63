package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/health"
	"github.com/portald/portald/proxy/kube/watch"
	"github.com/portald/portald/proxy/metrics"
)

// disturbances reports changes of the host's rules by others to the log, events, metrics and health, and remembers them
// for the admin API. Safe for concurrent use.
type disturbances struct {
	log     logrus.FieldLogger
	events  *watch.Recorder
	history *changes.Log
	metrics *metrics.Metrics
	health  *health.Health
	writer  portal.Writer

	mu   sync.Mutex
	seen adminsocket.Disturbances
}

// newDisturbances returns the disturbances of a writer's rules.
func newDisturbances(
	writer portal.Writer, src *source, metrics *metrics.Metrics, health *health.Health, log logrus.FieldLogger,
) *disturbances {
	return &disturbances{
		log: log, events: src.events, history: src.history, metrics: metrics, health: health, writer: writer,
	}
}

// listen has the writer receive what the kernel tells of others.
func (d *disturbances) listen(ctx context.Context) error {
	if err := d.writer.Listen(ctx); err != nil {
		d.log.WithError(err).Warn("Cannot tell who changes the host's rules")
	}
	return nil
}

// watchTime is how long to look who changes rules after somebody has: transactions of all programs cost more meanwhile.
const watchTime = 10 * time.Minute

// damaged implements proxy.Watcher.Damaged.
func (d *disturbances) damaged(damage proxy.Damage) {
	d.health.Damaged()
	d.metrics.RulesChanged()
	who := strings.Join(d.culprits(), ", ")
	d.writer.Watch(watchTime)
	d.mu.Lock()
	d.seen.Times++
	d.seen.Last, d.seen.Found, d.seen.Missing = time.Now(), damage.Err.Error(), true
	d.mu.Unlock()

	text := "The host's rules were changed by others"
	if damage.Times > 1 {
		text += fmt.Sprintf(", the %d. time without quiet", damage.Times)
	}
	if text += ": applying everything again"; damage.Wait > 0 {
		text += fmt.Sprintf(" in %s: portald does not fight with another program", damage.Wait.Round(100*time.Millisecond))
	}
	entry := d.log.WithError(damage.Err)
	if who != "" {
		entry, text = entry.WithField("by", who), text+"; seen: "+who
	}
	entry.Warn(text)
	d.history.Add(changes.Change{Kind: changes.RulesChanged, What: text})
	d.events.NodeWarning("RulesChanged", "ApplyRules", text+": "+damage.Err.Error())
}

// culprits names whom the writer saw, the last one first.
func (d *disturbances) culprits() (out []string) {
	for _, c := range d.writer.Culprits() {
		out = append(out, c.String())
	}
	return out
}

// repaired takes in that everything was applied.
func (d *disturbances) repaired() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen.Missing = false
	d.health.Repaired()
}

// report returns them for the admin API.
func (d *disturbances) report() adminsocket.Disturbances {
	who := d.culprits()
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.seen
	out.By = who
	return out
}

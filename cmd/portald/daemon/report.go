package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/daemon/answers"
	"github.com/portald/portald/cmd/portald/daemon/hostinfo"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/kernel"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/kube/watch"
	"github.com/portald/portald/proxy/metrics"
)

// reporter publishes what the reconcile loop and the dataplane did: in the log, events, metrics and health.
type reporter struct {
	log      logrus.FieldLogger
	events   *watch.Recorder
	metrics  *metrics.Metrics
	probes   *probes
	flows    *flows.Recorder
	resyncs  *resyncs
	problems *answers.Problems

	nodePorts    *hostinfo.NodePorts
	disturbances *disturbances
	history      *changes.Log
	store        *service.Store
	cache        *translate.Cache
}

func newReporter(
	rules *hostRules, src *source, m *metrics.Metrics, shown *probes, of *flows.Recorder,
	problems *answers.Problems,
) *reporter {
	return &reporter{
		log: rules.log, events: src.events, metrics: m, probes: shown, flows: of, resyncs: newResyncs(), problems: problems,
		nodePorts: rules.nodePorts, disturbances: newDisturbances(rules.writer, src, m, shown.health, rules.log),
		history: src.history, store: src.store, cache: src.cache,
	}
}

// queued implements proxy.Watcher.Queued.
func (r *reporter) queued(at time.Time) {
	r.metrics.Queued(at)
	r.probes.health.QueuedUpdate()
}

// adopted implements dataplane.Options.Adopted.
func (r *reporter) adopted(err error) {
	if err != nil {
		r.log.WithError(err).Info("The predecessor's rules differ: writing all rules")
		return
	}
	r.log.Info("The predecessor's rules are up to date: writing none")
}

// rewritten implements dataplane.Options.Rewritten.
func (r *reporter) rewritten(err error) {
	r.disturbances.damaged(proxy.Damage{Err: err, Times: 1})
	r.disturbances.repaired()
}

// synced implements proxy.Watcher.Synced.
func (r *reporter) synced(s proxy.Sync) {
	r.metrics.Synced(s.Full, s.Start, s.End)
	r.metrics.Programmed(s.Triggered, s.End)
	if s.Full {
		r.disturbances.repaired()
		r.probes.services.Replace(s.Ports)
		r.metrics.ReplacePorts(s.Ports)
		r.flows.Replace(s.Ports)
	} else {
		r.probes.services.Update(s.Changes)
		r.metrics.UpdatePorts(s.Changes)
		r.flows.Update(s.Changes)
	}
	r.probes.health.Updated() // who sees it is told of these service ports by every other part
	r.logSync(s, r.log.WithField("took", s.End.Sub(s.Start).Round(time.Microsecond)))
}

func (r *reporter) logSync(s proxy.Sync, entry *logrus.Entry) {
	switch {
	case !s.Full && s.Waiting > 0:
		entry.WithField("waiting", s.Waiting).Debug("Applied changes")
	case !s.Full:
		entry.Debug("Applied changes")
	case !r.resyncs.isReady():
		close(r.resyncs.ready)
		r.ready(entry)
		r.events.Starting()
	default:
		entry.WithField("why", s.Why).Info("Applied everything again")
		r.history.Add(changes.Change{Kind: changes.Resynced, What: "everything was applied again: " + bounded(s.Why)})
	}
}

// ready says what is served.
func (r *reporter) ready(entry *logrus.Entry) {
	if why := r.nodePorts.Announce(); why != "" {
		entry.Warn("Ready: service ports are served, but NodePorts on no address: " + why)
		return
	}
	if partly := r.partly(); partly != "" {
		entry.WithField("services", partly).Warn("Ready: service ports are served, but not as configured for some " +
			"Services: the lines before this one say why and what to do, and portald explain SERVICE repeats them")
		return
	}
	entry.Info("Ready: all service ports are served")
}

// partly names Services of which something is not served; empty if there are none.
func (r *reporter) partly() string {
	of := r.problems.Services()
	r.cache.EachProblem(func(svc service.Name, p translate.Problem) {
		if _, is := p.OfAnnotation(); !is {
			of[svc.String()] = struct{}{}
		}
	})
	const most = 5
	names := slices.Sorted(maps.Keys(of))
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// contested reports a Service that lost one of its addresses to another.
func (r *reporter) contested(c portal.Conflict) {
	r.log.WithFields(logrus.Fields{
		"frontend": c.Frontend.String(), "holder": c.Holder.Label(), "service": c.Loser.Label(),
	}).Warn("Two Services claim one address: the older one gets it")
	r.events.Contested(c.Loser.Service(),
		fmt.Sprintf("%s is held by the older Service %s; give this one another address", c.Frontend, c.Holder.Label()))
}

// bounded reports a Service with more endpoints than ClientIP affinity by the kernel can serve.
func (r *reporter) bounded(name service.PortName, endpoints int) {
	text := fmt.Sprintf("spec.sessionAffinity ClientIP: only %d of the %d endpoints of %s serve on a node that carries "+
		"it by the kernel; use fewer endpoints, no affinity, or the annotation portald.io/mode=userspace",
		kernel.MaxBound, endpoints, name.Label())
	r.log.WithField("service", name.Label()).Warn(text)
	r.events.ServiceWarning(name.Service(), "AffinityBounded", "LeaveOut", text)
}

// refused reports a service port that cannot be served as its Service says, or that is served again.
func (r *reporter) refused(n dataplane.Refusal) {
	r.problems.Refused(n)
	log := r.log.WithField("service", n.Name.Label())
	if n.Err != nil || r.store.Port(n.Name) != nil { // else it is gone
		r.history.Add(refusal(n.Name, "the service port", n.Err))
	}
	if n.Err == nil {
		log.Info("Service port served again")
		r.events.Served(n.Name.Service(), n.Name.Label())
		return
	}
	r.metrics.Refused(string(n.Reason))
	log.WithError(n.Err).WithField("reason", n.Reason).
		Error("Cannot serve the service port as configured: its clients are refused; all others are served")
	r.events.Refused(n.Name.Service(), n.Name.Label(), n.Err.Error())
}

// longestText bounds the text of an error in the history, in bytes: the host may say much.
const longestText = 300

func bounded(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + "…"
}

// refusal is the change that something of a service port cannot be served, or with a nil error that it is again.
func refusal(name service.PortName, what string, err error) changes.Change {
	c := changes.Change{Kind: changes.ServiceAccepted, Service: name, What: what}
	if err != nil {
		c.Kind, c.New = changes.ServiceRefused, bounded(err.Error())
	}
	return c
}

// flowsNotSeen reports that stale flows could not be deleted.
func (r *reporter) flowsNotSeen(err error) {
	r.log.WithError(err).Warn("UDP clients may keep sending to endpoints that are gone, and connections that began " +
		"before their Service was served may not get through")
}

// portalFailures publishes which frontends a writer could not serve.
type portalFailures struct {
	log      logrus.FieldLogger
	events   *watch.Recorder
	metrics  *metrics.Metrics
	problems *answers.Problems
	history  *changes.Log
}

// failedPortal implements writers.Deps.FailedPortal.
func (r portalFailures) failedPortal(p portal.Portal, err error) {
	log := r.log.WithFields(logrus.Fields{"frontend": p.Frontend.String(), "service": p.Owner.Label()})
	r.history.Add(refusal(p.Owner, "its address "+p.Frontend.String(), err))
	if err == nil {
		log.Info("Frontend served again")
	} else {
		log.WithError(err).Error("Cannot serve a frontend: trying again; all others are served")
		r.events.ServiceWarning(p.Owner.Service(), "FailedToListen", "Retry", fmt.Sprintf("%s: %s", p.Frontend, err))
	}
	r.metrics.FrontendsFailed(r.problems.Failed(p, err))
}

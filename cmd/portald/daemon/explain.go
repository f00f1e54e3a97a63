package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/explain"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/record"
)

// explainer collects the facts of a report, and waits for nothing for long: what does not answer is said in the report.
type explainer struct {
	*daemon
	turn chan struct{} // one report at a time: it runs commands
}

func newExplainer(d *daemon) *explainer { return &explainer{d, make(chan struct{}, 1)} }

// How long facts are waited for: an answer of the reconcile loop, and the commands that list the host's rules, which
// take seconds with ten thousands of Services, and more on a host that is short of CPU time: who asks can end it.
const (
	loopTime  = 2 * time.Second
	rulesTime = 30 * time.Second
)

// How much a report has.
const (
	mostSubjects = 8  // service ports
	lastRecords  = 10 // of each
	mostFlows    = 200
)

// explain implements adminsocket.Daemon.Explain.
func (x *explainer) explain(ctx context.Context, what, from string) (*explain.Report, error) {
	q, err := explain.Parse(what, from)
	if err != nil {
		return nil, err
	}
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ports := x.source.store.Ports()
	q, found := explain.Find(x.connection(q), ports, x.host.Addresses.Contains)
	more := max(len(found)-mostSubjects, 0)
	found = found[:len(found)-more]
	node := x.node()
	subjects := x.subjects(ctx, q, found, &node)
	report := explain.Explain(q, node, subjects, time.Now())
	if more > 0 {
		report.Omit(more)
	}
	if !report.Known() {
		report.Nearest = explain.Nearest(q, ports)
	}
	return report, ctx.Err()
}

// connection finds the connection that is asked for by its id: its Service and client are asked for then.
func (x *explainer) connection(q explain.Question) explain.Question {
	if q.ID == 0 {
		return q
	}
	for _, live := range x.path.core.Snapshot() {
		if live.ID == q.ID {
			return q.Of(&explain.Connection{Live: &live})
		}
	}
	for _, r := range x.telemetry.stream.Last(1, func(r *record.Record) bool { return r.ID == q.ID }) {
		return q.Of(&explain.Connection{Record: r})
	}
	return q
}

// node is what is known whatever is asked.
func (x *explainer) node() explain.Node {
	cfg := x.rules.cfg
	return explain.Node{
		NodePorts: x.rules.nodePorts.Here(),
		Name:      cfg.NodeName, Mode: cfg.Mode, Writer: cfg.Writer, Policy: x.settings.Load().Policy,
		Scheduler: cfg.IPVS.Scheduler, Local: x.host.Addresses.Contains, Inside: x.rules.detector.InsideByAddress, Own: x.own,
	}
}

// own tells which rules are portald's. Kubelet has chains with the prefix of kube-proxy's.
func (x *explainer) own(t *netfilter.Table, chain string) bool {
	names := writers.NamesOf(x.rules.cfg)
	if t.Program == netfilter.NFTables {
		return t.Name == names.Table
	}
	kubelet := []string{"KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT"}
	return strings.HasPrefix(chain, names.Chains+"-") && !slices.Contains(kubelet, chain)
}

// leadsToServices tells which chains are portald's, and as many as there are Services. Others of its own, which accept
// packets, decide about what rules behind them see.
func (x *explainer) leadsToServices(chain string) bool {
	rest, ours := strings.CutPrefix(chain, writers.NamesOf(x.rules.cfg).Chains+"-")
	kinds := []string{"SERVICES", "NODEPORTS", "IP", "IP-", "NP-", "SVC-", "SVL-", "SEP-", "EXT-", "FW-"}
	return ours && slices.ContainsFunc(kinds, func(kind string) bool {
		return rest == kind || strings.HasSuffix(kind, "-") && strings.HasPrefix(rest, kind)
	})
}

// subjects collects the facts of service ports, and those of the node that take time.
func (x *explainer) subjects(
	ctx context.Context, q explain.Question, ports []*service.Port, node *explain.Node,
) []explain.Subject {
	subjects := make([]explain.Subject, len(ports))
	for i, p := range ports {
		subjects[i].Port = p
		drained := x.inventory.drained(p)
		subjects[i].Drained = func(at netip.AddrPort) bool { return slices.Contains(drained, at) }
		subjects[i].Ejected = x.inventory.ejected(p)
		subjects[i].Waiting = x.path.core.Waiting(p.Name.Service())
		subjects[i].Bound = x.path.listeners.Fronts().Bound(p.Name)
		subjects[i].Records = x.telemetry.stream.Last(lastRecords, q.About(p))
	}
	node.Busy = x.standings(ctx, subjects)
	x.problems(subjects)
	x.open(subjects)
	ctx, cancel := context.WithTimeout(ctx, rulesTime)
	defer cancel()
	if q.Pod == "" && !q.Endpoint.IsValid() && len(subjects) > 0 {
		x.hostRules(ctx, subjects, node)
	}
	x.flows(ctx, subjects)
	return subjects
}

// standings asks the reconcile loop.
func (x *explainer) standings(ctx context.Context, subjects []explain.Subject) error {
	ctx, cancel := context.WithTimeout(ctx, loopTime)
	defer cancel()
	standing := make([]*dataplane.PortStatus, len(subjects))
	err := x.reconciler.questions.Ask(ctx, func() {
		for i := range subjects {
			if s, ok := x.reconciler.dataplane.Status(subjects[i].Port.Name); ok {
				standing[i] = &s
			}
		}
	})
	if err != nil {
		if busy := x.reconciler.stopwatch.Running(); busy > 0 {
			return fmt.Errorf("it has been writing to the host for %s", busy.Round(time.Second))
		}
		return fmt.Errorf("it is waiting to begin, or to try again after an error: see the log")
	}
	for i, s := range standing {
		if s != nil {
			subjects[i].Applied = &explain.Applied{
				Port: s.Port, Mode: s.Mode, Claims: s.Claims, Holders: s.Holders, SetAside: string(s.Reason), Err: s.Err,
				Retry: s.Next,
			}
		}
	}
	return nil
}

// problems adds what of a Service cannot be served.
func (x *explainer) problems(subjects []explain.Subject) {
	of := map[service.Name][]string{}
	for _, s := range subjects {
		of[s.Port.Name.Service()] = nil
	}
	x.source.cache.EachProblem(func(name service.Name, p translate.Problem) {
		if _, wanted := of[name]; wanted {
			of[name] = append(of[name], p.Error())
		}
	})
	for i := range subjects {
		s := &subjects[i]
		s.Problems = append(slices.Clone(of[s.Port.Name.Service()]), x.inventory.problems.ofFrontends(s.Port)...)
	}
}

// open counts the connections of service ports that may have so many at most, or so many of each client.
func (x *explainer) open(subjects []explain.Subject) {
	at := map[service.PortName]int{}
	for i, s := range subjects {
		p := s.Port.Policy.Or(x.settings.Load().Policy)
		if p.Shares.MaxConnectionsPerClient > 0 {
			subjects[i].OpenOf = map[netip.Addr]int{}
		}
		if p.MaxConnections > 0 || subjects[i].OpenOf != nil {
			at[s.Port.Name] = i
		}
	}
	if len(at) == 0 {
		return
	}
	for _, live := range x.path.core.Snapshot() {
		i, ok := at[live.Service]
		if !ok {
			continue
		}
		subjects[i].Open[inet.FamilyOf(live.Client.Addr())]++
		if of := subjects[i].OpenOf; of != nil {
			of[live.Client.Addr()]++
		}
	}
}

// hostRules reads the rules of portald and of others from the host, both at once.
func (x *explainer) hostRules(ctx context.Context, subjects []explain.Subject, node *explain.Node) {
	if node.Writer == writers.Netsh {
		x.show(ctx, subjects)
		return
	}
	var all sync.WaitGroup
	all.Go(func() {
		table := writers.NamesOf(x.rules.cfg).Table
		node.Rules = netfilter.Reader{
			SkipTable: func(_, name string) bool { return name == table }, SkipChain: x.leadsToServices,
		}.Read(ctx)
	})
	x.show(ctx, subjects)
	all.Wait()
}

func (x *explainer) show(ctx context.Context, subjects []explain.Subject) {
	for i := range subjects {
		if s := &subjects[i]; s.Applied != nil {
			s.Shows = true
			s.Shown, s.ShownErr = x.rules.writer.Show(ctx, s.Applied.Held())
		}
	}
}

// flows adds the entries of the conntrack table.
func (x *explainer) flows(ctx context.Context, subjects []explain.Subject) {
	if x.rules.cfg.Writer == writers.Netsh {
		return // the kernel tracks no flows of Services
	}
	err := listFlows(true)(ctx, func(raw []byte) bool {
		f, ok := flows.Parse(raw)
		for i := range subjects {
			s := &subjects[i]
			if ok && len(s.Flows) < mostFlows && s.Dialled(f.To, f.Protocol, x.host.Addresses.Contains) {
				s.Flows = append(s.Flows, f)
			}
		}
		return true
	})
	for i := range subjects {
		subjects[i].FlowsErr = err
	}
}

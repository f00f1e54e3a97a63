package answers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/hostinfo"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/dataplane"
	"github.com/portald/portald/proxy/explain"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/kube/translate"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// Explainer collects the facts of a report, and waits for nothing for long: what does not answer is said in the report.
type Explainer struct {
	facts Facts
	turn  chan struct{} // one report at a time: it runs commands
}

// Facts are where an Explainer finds them.
type Facts struct {
	Config    *config.Config
	Settings  *atomic.Pointer[config.Settings] // of the last reload
	Host      *hostinfo.Host
	NodePorts *hostinfo.NodePorts
	Writer    portal.Writer
	Cache     *translate.Cache
	Core      *splice.Core
	Records   *connlog.Stream
	Changes   *changes.Log
	Inventory *Inventory
	Loop      proxy.Calls // of the reconcile loop
	Dataplane *dataplane.Dataplane
	Stopwatch *proxy.Stopwatch
	// ListFlows lists the conntrack table.
	ListFlows func(ctx context.Context, each func(raw []byte) bool) error
	// Timeouts are those of that table now.
	Timeouts func() flows.Timeouts
}

// NewExplainer returns one of these facts.
func NewExplainer(f Facts) *Explainer { return &Explainer{f, make(chan struct{}, 1)} }

// How long facts are waited for: an answer of the reconcile loop, and the lists of the host's flows and rules, which
// take seconds with ten thousands of Services, and more on a host that is short of CPU time: the client can cancel it.
// Together they stay below the minute that the server has to answer.
const (
	loopTime = 2 * time.Second
	listTime = 30 * time.Second
)

// lately is how long ago something was seen last that may go on.
const lately = 5 * time.Minute

// How much a report has.
const (
	mostSubjects = 8   // service ports
	lastRecords  = 200 // of each
	lastChanges  = 200
	mostFlows    = 200
	mostAnswers  = 1000 // flows of UDP that may be answers
	mostLive     = 2000 // open connections
	mostRead     = 256  // of these, those whose sockets are asked
)

// explain implements adminsocket.Daemon.Explain.
func (x *Explainer) explain(ctx context.Context, what, from string, probe bool) (*explain.Report, error) {
	q, err := explain.Parse(what, from)
	if err != nil {
		return nil, err
	}
	if probe {
		if err := q.MayProbe(); err != nil {
			return nil, err
		}
	}
	done, err := x.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ports := x.facts.Inventory.Store.Ports()
	q, found := explain.Find(x.connection(q), ports, x.facts.Host.Addresses.Contains)
	if len(found) == 0 {
		q, found = x.removed(q)
	}
	if len(found) == 0 && !probe {
		if report := x.client(ctx, q, ports); report != nil {
			return report, ctx.Err()
		}
	}
	more := max(len(found)-mostSubjects, 0)
	found = found[:len(found)-more]
	node := x.node()
	subjects := x.subjects(ctx, q, found, &node)
	if probe {
		x.probe(ctx, q, subjects)
	}
	report := explain.Explain(q, node, subjects, time.Now())
	complete(report, q, ports, more)
	return report, ctx.Err()
}

// begin waits for the turn of a report, which done ends.
func (x *Explainer) begin(ctx context.Context) (done func(), err error) {
	select {
	case x.turn <- struct{}{}:
		return func() { <-x.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// complete says how many service ports are left out, and which names are near to one that is not known.
func complete(report *explain.Report, q explain.Query, ports []*service.Port, more int) {
	if more > 0 {
		report.Omit(more)
	}
	if !report.Known() {
		report.Nearest = explain.Nearest(q, ports)
	}
}

// connection resolves the id of a connection in a query to its Service and client.
func (x *Explainer) connection(q explain.Query) explain.Query {
	if q.ID == 0 {
		return q
	}
	for _, live := range x.facts.Core.Snapshot() {
		if live.ID == q.ID {
			return q.Of(&explain.Connection{Live: &live})
		}
	}
	for _, r := range x.facts.Records.Last(1, func(r *record.Record) bool { return r.ID == q.ID }) {
		return q.Of(&explain.Connection{Record: r})
	}
	return q
}

// node returns the facts of the node, which all queries need.
func (x *Explainer) node() explain.Node {
	cfg := x.facts.Config
	return explain.Node{
		NodePorts: x.facts.NodePorts.Here(),
		Name:      cfg.NodeName, Mode: cfg.Mode, Writer: cfg.Writer, Policy: x.facts.Settings.Load().Policy,
		Scheduler: cfg.IPVS.Scheduler, Local: x.facts.Host.Addresses.Contains, Own: x.own,
		Inside: x.facts.Host.Detector.InsideByAddress, Path: x.path, SynSent: x.facts.Timeouts().TCP[flows.SynSent],
	}
}

// own tells which rules are portald's. Kubelet has chains with the prefix of kube-proxy's.
func (x *Explainer) own(t *netfilter.Table, chain string) bool {
	names := writers.NamesOf(x.facts.Config)
	if t.Program == netfilter.NFTables {
		return t.Name == names.Table
	}
	kubelet := []string{"KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT"}
	return strings.HasPrefix(chain, names.Chains+"-") && !slices.Contains(kubelet, chain)
}

// leadsToServices tells which chains are portald's, and as many as there are Services. Others of its own, which accept
// packets, decide about what rules behind them see.
func (x *Explainer) leadsToServices(chain string) bool {
	rest, ours := strings.CutPrefix(chain, writers.NamesOf(x.facts.Config).Chains+"-")
	kinds := []string{"SERVICES", "NODEPORTS", "IP", "IP-", "NP-", "SVC-", "SVL-", "SEP-", "EXT-", "FW-"}
	return ours && slices.ContainsFunc(kinds, func(kind string) bool {
		return rest == kind || strings.HasSuffix(kind, "-") && strings.HasPrefix(rest, kind)
	})
}

// subjects collects the facts of service ports, and the facts of the node that take time.
func (x *Explainer) subjects(
	ctx context.Context, q explain.Query, ports []*service.Port, node *explain.Node,
) []explain.Subject {
	subjects, refused := make([]explain.Subject, len(ports)), x.facts.Inventory.Refused(ctx)
	for i, p := range ports {
		subjects[i].Port = p
		drained := x.facts.Inventory.drained(p)
		subjects[i].Drained = func(at netip.AddrPort) bool { return slices.Contains(drained, at) }
		subjects[i].Ejected = x.facts.Inventory.ejected(p)
		if refused != nil {
			of := refused(p.Name)
			subjects[i].Refused = explain.Lost{Packets: of.Last, Since: of.Since, Until: of.Until}
		}
		if full := x.facts.Inventory.ReceiveBufferFull; full != nil {
			of := full(p.Name)
			subjects[i].BufferFull = explain.Lost{Packets: of.Last, Since: of.Since, Until: of.Until,
				Lately: time.Since(of.Until) < lately}
		}
		subjects[i].Waiting = x.facts.Core.Waiting(p.Name.Service())
		subjects[i].Sharing = x.facts.Inventory.Listeners.Fronts().Sharing(p.Name)
		subjects[i].Bound = x.facts.Inventory.Listeners.Fronts().Bound(p.Name)
		if p.Affinity > 0 {
			subjects[i].Bindings = x.facts.Inventory.Listeners.Fronts().Bindings(p.Name)
		}
		subjects[i].Changes = x.facts.Changes.Last(lastChanges, func(c *changes.Change) bool {
			return c.Service.Service() == p.Name.Service()
		})
		subjects[i].Records = x.facts.Records.Last(lastRecords, q.About(p))
	}
	node.Busy = x.standings(ctx, subjects)
	x.problems(subjects)
	x.open(ctx, q, subjects)
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	x.flows(ctx, q, subjects, node) // before the rules, which may take all the time that there is
	if slices.ContainsFunc(ports, q.HasRules) {
		x.hostRules(ctx, q, subjects, node)
	}
	return subjects
}

// standings reads the state of service ports in the reconcile loop.
func (x *Explainer) standings(ctx context.Context, subjects []explain.Subject) error {
	ctx, cancel := context.WithTimeout(ctx, loopTime)
	defer cancel()
	standing := make([]*dataplane.PortStatus, len(subjects))
	err := x.facts.Loop.Do(ctx, func() {
		for i := range subjects {
			if s, ok := x.facts.Dataplane.Status(subjects[i].Port.Name); ok {
				standing[i] = &s
			}
		}
	})
	if err != nil {
		if busy := x.facts.Stopwatch.Running(); busy > 0 {
			return fmt.Errorf("it has been writing to the host for %s", busy.Round(time.Second))
		}
		return fmt.Errorf("it is waiting to begin, or to try again after an error: see the log")
	}
	for i, s := range standing {
		if s != nil {
			subjects[i].Applied = &explain.Applied{
				Port: s.Port, Mode: s.Mode, Claims: s.Claims, Holders: s.Holders, Quarantine: string(s.Reason), Err: s.Err,
				Retry: s.Next,
			}
		}
	}
	return nil
}

// problems adds what of a Service cannot be served.
func (x *Explainer) problems(subjects []explain.Subject) {
	of := map[service.Name][]translate.Problem{}
	for _, s := range subjects {
		of[s.Port.Name.Service()] = nil
	}
	x.facts.Cache.EachProblem(func(name service.Name, p translate.Problem) {
		if all, wanted := of[name]; wanted {
			of[name] = append(all, p)
		}
	})
	for i := range subjects {
		s := &subjects[i]
		for _, p := range of[s.Port.Name.Service()] {
			if text, is := p.OfAnnotation(); is {
				s.Ignored = append(s.Ignored, text)
			} else {
				s.Problems = append(s.Problems, p.Error())
			}
		}
		slices.Sort(s.Ignored)
		slices.Sort(s.Problems)
		s.Problems = append(s.Problems, x.facts.Inventory.Problems.ofFrontends(s.Port)...)
	}
}

// open adds the open connections of service ports, with what the kernel knows of the sockets of some of them, and
// counts those of service ports that may have so many at most, or so many of each client.
func (x *Explainer) open(ctx context.Context, q explain.Query, subjects []explain.Subject) {
	of := map[service.PortName]*explain.Subject{}
	for i := range subjects {
		s := &subjects[i]
		of[s.Port.Name] = s
		if s.Port.Policy.Or(x.facts.Settings.Load().Policy).Shares.MaxConnectionsPerClient > 0 {
			s.OpenOf = map[netip.Addr]int{}
		}
	}
	for live := range x.facts.Core.All() {
		s := of[live.Service]
		if s == nil {
			continue
		}
		s.Open[inet.FamilyOf(live.Client.Addr())]++
		if s.OpenOf != nil {
			s.OpenOf[live.Client.Addr()]++
		}
		switch {
		case !q.AboutLive(s.Port, live):
		case len(s.Live) < mostLive:
			s.Live = append(s.Live, *live)
		default:
			s.MoreLive++
		}
	}
	ctx, cancel := context.WithTimeout(ctx, loopTime)
	defer cancel()
	for i := range subjects {
		x.facts.Core.ReadTCPInfo(ctx, subjects[i].Live[:min(mostRead, len(subjects[i].Live))])
	}
}

// hostRules reads the rules of portald and of others from the host, both at once.
func (x *Explainer) hostRules(ctx context.Context, q explain.Query, subjects []explain.Subject, node *explain.Node) {
	if node.Writer == writers.Netsh {
		x.show(ctx, q, subjects)
		return
	}
	var all sync.WaitGroup
	all.Go(func() {
		table := writers.NamesOf(x.facts.Config).Table
		node.Rules = netfilter.Reader{
			SkipTable: func(_, name string) bool { return name == table }, SkipChain: x.leadsToServices,
		}.Read(ctx)
	})
	x.show(ctx, q, subjects)
	all.Wait()
}

func (x *Explainer) show(ctx context.Context, q explain.Query, subjects []explain.Subject) {
	for i := range subjects {
		if s := &subjects[i]; s.Applied != nil {
			s.Shows = true
			s.Shown, s.ShownErr = x.facts.Writer.Show(ctx, q.Portals(s.Port, s.Applied.OwnPortals()))
		}
	}
}

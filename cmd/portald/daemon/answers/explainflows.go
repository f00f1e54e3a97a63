package answers

import (
	"context"
	"net/netip"

	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/proxy/explain"
	"github.com/portald/portald/proxy/kernel/flows"
)

// flows adds the entries of the conntrack table: of each subject those to its frontends, or of the pod that was asked
// for; of such a pod also those to other Services.
func (x *Explainer) flows(ctx context.Context, q explain.Query, subjects []explain.Subject, node *explain.Node) {
	if x.facts.Config.Writer == writers.Netsh {
		return // the kernel tracks no flows of Services
	}
	local := x.facts.Host.Addresses.Contains
	tracked, mayAnswer := make([]func(flows.Flow) bool, len(subjects)), make([]func(*flows.Flow) bool, len(subjects))
	pod := map[netip.Addr]bool{}
	for i := range subjects {
		tracked[i], mayAnswer[i] = q.Tracked(&subjects[i], local), subjects[i].MayAnswer()
		for a := range q.Addresses(&subjects[i]) {
			pod[a] = true
		}
	}
	err := x.facts.ListFlows(ctx, func(raw []byte) bool {
		f, ok := flows.Parse(raw)
		if !ok {
			return true
		}
		taken := false
		for i := range subjects {
			s := &subjects[i]
			if len(s.Answers) < mostAnswers && mayAnswer[i](&f) {
				s.Answers = append(s.Answers, f)
			}
			if !tracked[i](f) {
				continue
			}
			if taken = true; len(s.Flows) < mostFlows {
				s.Flows = append(s.Flows, f)
			}
		}
		if !taken && pod[f.From.Addr()] && len(node.Outgoing) < mostFlows {
			x.outgoing(f, node)
		}
		return true
	})
	for i := range subjects {
		subjects[i].FlowsErr = err
	}
}

// outgoing adds what a pod began, if it is to a Service.
func (x *Explainer) outgoing(f flows.Flow, node *explain.Node) {
	for _, at := range explain.Frontends(f, x.facts.Host.Addresses.Contains) {
		if p := x.facts.Inventory.PortalAt(at); p != nil {
			node.Outgoing = append(node.Outgoing, explain.Outgoing{Flow: f, Service: p.Owner})
			return
		}
	}
}

package translate

import (
	"maps"
	"slices"

	"github.com/portald/portald/portal/service"
)

// serviceProblem is a problem to report.
type serviceProblem struct {
	svc service.Name
	Problem
}

// change changes the stored objects, then brings the Store up to date and reports what is new.
func (c *Cache) change(alter func(changed names)) {
	for _, p := range c.update(alter) {
		c.log.WithField("service", p.svc.String()).Warn(p.Error())
		if c.Report != nil {
			c.Report(p.svc, p.Problem)
		}
	}
	c.notifyNode()
	c.notifyServiceCIDRs()
}

// update makes the change, translates the Services that it concerns, and returns their new problems.
func (c *Cache) update(alter func(changed names)) (fresh []serviceProblem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := names{}
	alter(changed)
	if c.deferred != nil {
		maps.Copy(c.deferred, changed)
		clear(changed)
	}
	for _, name := range slices.SortedFunc(maps.Keys(changed), compareNames) {
		for _, p := range c.translate(name) {
			fresh = append(fresh, serviceProblem{name, p})
		}
	}
	return fresh
}

// translate brings the Store up to date with one Service and returns the problems that were not reported before.
func (c *Cache) translate(name service.Name) (fresh []Problem) {
	e := c.entries[name]
	triggered := e.triggered
	e.triggered = nil
	if e.svc == nil {
		c.store.Set(name, nil)
		e.reported = nil
		if len(e.slices) == 0 {
			delete(c.entries, name)
		}
		return nil
	}
	ports, problems := join(e.svc, e.slices, c.zone)
	if len(problems) < mostOfService {
		problems = append(problems, c.conflicts.problems(e.slices)...)
	}
	if e.svc.noHeader && c.address == service.AddressProxyV2 {
		problems = slices.Insert(slices.Clip(problems), 0, withoutHeader(e.svc.id, c.opts))
	}
	if c.deadlines.refused(name) {
		problems = slices.Insert(slices.Clip(problems), 0, tooFarAhead(e.svc.id, e.svc.annotations))
	}
	problems = problems[:min(len(problems), mostOfService)]
	c.store.Set(name, ports, triggered...)
	return e.report(problems)
}

// report remembers the problems that a Service has now and returns those that it did not have before.
func (e *entry) report(problems []Problem) (fresh []Problem) {
	before := e.reported
	e.reported = nil
	if len(problems) > 0 {
		e.reported = make(map[Problem]struct{}, len(problems))
	}
	for _, p := range problems {
		if _, known := before[p]; !known {
			fresh = append(fresh, p)
		}
		e.reported[p] = struct{}{}
	}
	return fresh
}

// EachProblem calls f with the problems that Services have now.
func (c *Cache) EachProblem(f func(service.Name, Problem)) {
	var all []serviceProblem
	c.mu.Lock()
	for name, e := range c.entries {
		for p := range e.reported {
			all = append(all, serviceProblem{name, p})
		}
	}
	c.mu.Unlock()
	for _, p := range all {
		f(p.svc, p.Problem)
	}
}

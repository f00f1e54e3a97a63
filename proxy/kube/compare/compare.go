// Package compare tells which Services of a cluster portald would serve otherwise than kube-proxy does, and what to do
// about each. It reads objects from files or from an API server, once, and does not know how traffic is carried: what a
// translation refuses it takes from package translate.
package compare

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/translate"
)

// Options are settings that the daemon would have.
type Options struct {
	Translate     translate.Options
	ClientAddress service.ClientAddress // of Services that set none
	MaxBound      int                   // endpoints of a port with affinity that the kernel uses on one node
}

// Difference is a field of a Service, or of another object, for which portald serves the Service otherwise.
type Difference struct {
	Service service.Name
	translate.Problem
}

// Where is the field, after the object if that is not the Service.
func (d Difference) Where() string {
	if d.Object == serviceObject(d.Service) {
		return d.Field
	}
	return d.Object + " " + d.Field
}

func serviceObject(name service.Name) string { return "service " + name.String() }

// Result is the outcome of a comparison.
type Result struct {
	Services    int // that a service proxy serves
	Userspace   int // of them in mode userspace
	Differences []Difference
	Missing     []string
}

// comparison is one that is being made.
type comparison struct {
	*Objects
	opts        Options
	ports       map[service.Name][]*service.Port
	differences []Difference
}

// Compare finds the differences, in the order of Services. Cost: O(objects), and O(Services × policies of a namespace).
func Compare(objects *Objects, opts Options) Result {
	c := &comparison{Objects: objects, opts: opts, ports: map[service.Name][]*service.Port{}}
	c.translate()
	r := Result{Services: len(c.ports), Missing: objects.Missing}
	for _, svc := range c.Services {
		ports := c.ports[service.Name{Namespace: svc.Namespace, Name: svc.Name}]
		if len(ports) == 0 {
			continue
		}
		if c.userspace(ports[0]) {
			r.Userspace++
			c.inUserspace(svc, ports[0])
		} else {
			c.inKernel(svc, ports)
		}
	}
	c.contested()
	slices.SortStableFunc(c.differences, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Service.String(), b.Service.String()), strings.Compare(a.Object, b.Object))
	})
	r.Differences = c.differences
	return r
}

// translate makes service ports of the objects; what is refused is a difference.
func (c *comparison) translate() {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	store := service.NewStore()
	cache := translate.NewCache(store, c.opts.Translate, quiet)
	cache.Report = func(name service.Name, p translate.Problem) {
		c.differences = append(c.differences, Difference{name, p})
	}
	cache.Pause()
	for _, o := range c.Nodes {
		cache.Set(o)
	}
	for _, o := range c.Slices {
		cache.Set(o)
	}
	for _, o := range c.Services {
		cache.Set(o)
	}
	cache.Resume()
	ports, _ := store.All()
	for _, p := range ports {
		name := service.Name{Namespace: p.Name.Namespace, Name: p.Name.Name}
		c.ports[name] = append(c.ports[name], p)
	}
}

func (c *comparison) userspace(p *service.Port) bool {
	return p.Mode.Or(c.opts.Translate.Mode) != service.ModeKernel
}

// add adds a difference in a field of a Service.
func (c *comparison) add(svc *corev1.Service, field string, value any, advice string) {
	name := service.Name{Namespace: svc.Namespace, Name: svc.Name}
	c.differences = append(c.differences, Difference{name, translate.Problem{
		Object: serviceObject(name), Field: field, Value: fmt.Sprint(value), Advice: advice,
	}})
}

// contested finds addresses that several Services claim.
func (c *comparison) contested() {
	holders := map[service.Frontend]*service.Port{}
	for _, ports := range c.ports {
		for _, p := range ports {
			for _, e := range p.Exposures {
				if h := holders[e.Frontend]; h == nil || older(p, h) {
					holders[e.Frontend] = p
				}
			}
		}
	}
	for _, svc := range c.Services {
		for _, p := range c.ports[service.Name{Namespace: svc.Namespace, Name: svc.Name}] {
			for _, e := range p.Exposures {
				if h := holders[e.Frontend]; h != p {
					c.add(svc, e.Kind.String(), e.Frontend.Addr, fmt.Sprintf("is the older Service's, %s/%s, always; "+
						"kube-proxy gives it to either; give the two different addresses or ports", h.Name.Namespace, h.Name.Name))
				}
			}
		}
	}
}

// older tells whether a owns a frontend that b claims too, as portal.Table decides it.
func older(a, b *service.Port) bool {
	return cmp.Or(a.Created.Compare(b.Created), a.Name.Compare(b.Name)) < 0
}

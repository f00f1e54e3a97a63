package translate

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/service"
)

// Cache keeps what matters of the newest Services, EndpointSlices and this node's Node, whatever source they come from,
// and puts what they mean into a Store. A change costs O(the Service it touches); one of this node's zone costs all of
// them. Safe for concurrent use.
type Cache struct {
	// Report, unless nil, is told of each problem that is logged. It must not block. Set it before the first change.
	Report func(service.Name, Problem)

	store *service.Store
	opts  Options
	log   logrus.FieldLogger
	began time.Time

	mu            sync.Mutex
	owners        map[service.Name]*owner
	slices        map[Key]*trimmedSlice // those that name a Service
	crossings     crossings
	node          *trimmedNode
	zone          string  // this node's
	held          touched // nil: changes are translated at once
	serviceEvents uint64
	sliceEvents   uint64

	watchers watchers
}

// owner is a Service and the slices that name it; either may be there without the other.
type owner struct {
	svc       *trimmedService      // nil: none that is served
	slices    []*trimmedSlice      // by name
	triggered []time.Time          // of changes that are not translated yet
	said      map[Problem]struct{} // problems that stand
}

// touched are the Services that a change concerns.
type touched map[service.Name]struct{}

// NewCache returns an empty Cache that fills store. Problems are logged once each, until they change.
func NewCache(store *service.Store, opts Options, log logrus.FieldLogger) *Cache {
	return &Cache{
		store:  store,
		opts:   opts,
		log:    log,
		began:  time.Now(),
		zone:   opts.Zone,
		owners: map[service.Name]*owner{},
		slices: map[Key]*trimmedSlice{}, crossings: newCrossings(),
	}
}

// SetOwn tells the addresses of this host, at which node ports are served; an endpoint there may be one. Set it before the
// first change.
func (c *Cache) SetOwn(own func(netip.Addr) bool) { c.crossings.own = own }

// Set takes in the newest state of objects: *corev1.Service, *discoveryv1.EndpointSlice and *corev1.Node; others are
// ignored. Nothing of the objects themselves is kept.
func (c *Cache) Set(objects ...metav1.Object) {
	var set []Object
	for _, o := range objects {
		if t := Trim(o, c.opts); t != nil {
			set = append(set, t)
		}
	}
	c.Apply(set, nil)
}

// Delete forgets objects.
func (c *Cache) Delete(keys ...Key) { c.Apply(nil, keys) }

// Options are those of the translation.
func (c *Cache) Options() Options { return c.opts }

// Changes counts the changes of Services and of EndpointSlices that came so far.
func (c *Cache) Changes() (services, endpointSlices uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.serviceEvents, c.sliceEvents
}

// Reference is a Service in the words of events, in the state that was translated last.
func (c *Cache) Reference(name service.Name) corev1.ObjectReference {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: string(KindService), Namespace: name.Namespace, Name: name.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.owners[name]; o != nil && o.svc != nil {
		ref.UID, ref.ResourceVersion = o.svc.uid, o.svc.resourceVersion
	}
	return ref
}

// Apply takes in many changes as one: each Service they touch is translated once, so that nobody sees a Service
// without the slices that came with it.
func (c *Cache) Apply(set []Object, gone []Key) {
	c.change(func(t touched) {
		for _, key := range gone {
			c.remove(key, t)
		}
		for _, object := range set {
			c.put(object, t)
		}
	})
}

// Replace takes in all objects of a kind that there are, as one change: others are gone. Those that are known in this
// version are passed over.
func (c *Cache) Replace(kind Kind, all []Object) {
	there := make(map[Key]struct{}, len(all))
	c.change(func(t touched) {
		for _, object := range all {
			there[object.Key()] = struct{}{}
			if v := object.version(); v == "" || v != c.version(object.Key()) {
				c.put(object, t)
			}
		}
		for _, key := range c.keys(kind) {
			if _, has := there[key]; !has {
				c.remove(key, t)
			}
		}
	})
}

// Hold puts off all translations until Release, so that the first state is seen whole.
func (c *Cache) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = touched{}
}

// Release translates what was put off, and from then on every change at once.
func (c *Cache) Release() {
	c.change(func(t touched) {
		maps.Copy(t, c.held)
		c.held = nil
	})
}

// news is what there is to say of one Service.
type news struct {
	svc      service.Name
	problems []Problem
}

// change makes one change of what is kept, and brings the Store and all who want to know up to date with it.
func (c *Cache) change(alter func(touched)) {
	for _, n := range c.settle(alter) {
		c.say(n)
	}
	c.tellNode()
}

// settle makes the change and translates what it touches.
func (c *Cache) settle(alter func(touched)) (all []news) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := touched{}
	alter(t)
	if c.held != nil {
		maps.Copy(c.held, t)
		clear(t)
	}
	for _, name := range slices.SortedFunc(maps.Keys(t), compareNames) {
		if problems := c.translate(name); len(problems) > 0 {
			all = append(all, news{name, problems})
		}
	}
	return all
}

func (c *Cache) say(n news) {
	for _, p := range n.problems {
		c.log.WithField("service", n.svc.String()).Warn(p.Error())
		if c.Report != nil {
			c.Report(n.svc, p)
		}
	}
}

// translate brings the Store up to date with one Service and returns the problems not said before.
func (c *Cache) translate(name service.Name) (fresh []Problem) {
	o := c.owners[name]
	triggered := o.triggered
	o.triggered = nil
	if o.svc == nil {
		c.store.Set(name, nil)
		o.said = nil
		if len(o.slices) == 0 {
			delete(c.owners, name)
		}
		return nil
	}
	ports, problems := join(o.svc, o.slices, c.zone)
	problems = append(problems, c.crossings.problems(o.slices)...)
	c.store.Set(name, ports, triggered...)
	var now map[Problem]struct{}
	if len(problems) > 0 {
		now = make(map[Problem]struct{}, len(problems))
	}
	for _, p := range problems {
		if _, said := o.said[p]; !said {
			fresh = append(fresh, p)
		}
		now[p] = struct{}{}
	}
	o.said = now
	return fresh
}

// EachProblem calls each with the problems of Services that stand.
func (c *Cache) EachProblem(each func(service.Name, Problem)) {
	var all []news
	c.mu.Lock()
	for name, o := range c.owners {
		for p := range o.said {
			all = append(all, news{name, []Problem{p}})
		}
	}
	c.mu.Unlock()
	for _, n := range all {
		each(n.svc, n.problems[0])
	}
}

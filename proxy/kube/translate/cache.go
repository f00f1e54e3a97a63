package translate

import (
	"iter"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/portal/service"
)

// Cache keeps what is needed of the newest Services, EndpointSlices, ServiceCIDRs and this node's Node, whatever source
// they come from, and writes the resulting service ports to a Store. A change costs O(the Service it concerns); one of
// this node's zone, or of the daemon's client address, costs O(all Services). Safe for concurrent use.
type Cache struct {
	// Report, unless nil, is called with each problem that is logged. It must not block. Set it before the first change.
	Report func(service.Name, Problem)
	// Annotated, unless nil, is called when an annotation of portald of a Service that is known has another value; empty:
	// there is none. It must be quick, and not call the Cache. Set it before the first change.
	Annotated func(of service.Name, annotation, old, new string)

	store   *service.Store
	opts    Options
	log     logrus.FieldLogger
	started time.Time

	mu            sync.Mutex
	entries       map[service.Name]*entry
	slices        map[Key]*trimmedSlice // those that name a Service
	deadlines     deadlines             // of Services that are debugged, or were refused to be
	conflicts     conflicts
	clients       *clients
	node          *trimmedNode
	zone          string                // this node's
	address       service.ClientAddress // the daemon's setting
	ranges        map[Key]*trimmedServiceCIDR
	deferred      names // Services to translate at Resume; nil: changes are translated at once
	serviceEvents uint64
	sliceEvents   uint64

	watchers      nodeWatchers
	rangeWatchers rangeWatchers
}

// entry is a Service and the slices that name it; either may be known without the other.
type entry struct {
	svc       *trimmedService      // in the state that counts now; nil: none, or none that is served
	slices    []*trimmedSlice      // by name
	triggered []time.Time          // trigger times of changes that are not translated yet
	reported  map[Problem]struct{} // problems that persist
}

// names are the Services that a change concerns.
type names map[service.Name]struct{}

func (n names) add(services ...service.Name) {
	for _, name := range services {
		n[name] = struct{}{}
	}
}

func (n names) addAll(services iter.Seq[service.Name]) {
	for name := range services {
		n[name] = struct{}{}
	}
}

// NewCache returns an empty Cache that fills store. Problems are logged once each, until they change.
func NewCache(store *service.Store, opts Options, log logrus.FieldLogger) *Cache {
	return &Cache{
		store: store, opts: opts, log: log, started: time.Now(), zone: opts.Zone, address: opts.ClientAddress,
		entries: map[service.Name]*entry{}, slices: map[Key]*trimmedSlice{}, conflicts: newConflicts(), clients: newClients(),
		ranges: map[Key]*trimmedServiceCIDR{}, deadlines: deadlines{},
	}
}

// SetNodeAddresses sets what tells the addresses of this host, on which node ports are served: an endpoint there may be
// a node port. Set it before the first change.
func (c *Cache) SetNodeAddresses(contains func(netip.Addr) bool) { c.conflicts.onNode = contains }

// Options are the options of the translation.
func (c *Cache) Options() Options { return c.opts }

// Set stores the newest state of objects: *corev1.Service, *discoveryv1.EndpointSlice, *corev1.Node,
// *networkingv1.ServiceCIDR and *corev1.Pod; others are ignored. Nothing of the objects themselves is kept.
func (c *Cache) Set(objects ...metav1.Object) {
	var set []Object
	for _, o := range objects {
		if t := Trim(o, c.opts); t != nil {
			set = append(set, t)
		}
	}
	c.Apply(set, nil)
}

// Delete removes objects.
func (c *Cache) Delete(keys ...Key) { c.Apply(nil, keys) }

// Changes counts the changes of Services and of EndpointSlices so far.
func (c *Cache) Changes() (services, endpointSlices uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.serviceEvents, c.sliceEvents
}

// Annotations are those of portald that a Service has, with their prefix and shortened; they may not be changed.
func (c *Cache) Annotations(of service.Name) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[of]; e != nil && e.svc != nil {
		return e.svc.annotations
	}
	return nil
}

// Reference refers to a Service, as events do, in the state that was translated last.
func (c *Cache) Reference(name service.Name) corev1.ObjectReference {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: string(KindService), Namespace: name.Namespace, Name: name.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[name]; e != nil && e.svc != nil {
		ref.UID, ref.ResourceVersion = e.svc.uid, e.svc.resourceVersion
	}
	return ref
}

// Apply stores and removes objects as one change: each Service that they concern is translated once, so that no Service
// is seen without the slices that came with it.
func (c *Cache) Apply(set []Object, removed []Key) {
	c.change(func(changed names) {
		for _, key := range removed {
			c.remove(key, changed)
		}
		for _, object := range set {
			c.put(object, changed)
		}
	})
}

// Replace stores all objects of a kind as one change: others of the kind are removed. Objects that are stored in the
// same version are skipped.
func (c *Cache) Replace(kind Kind, all []Object) {
	listed := make(map[Key]struct{}, len(all))
	c.change(func(changed names) {
		for _, object := range all {
			listed[object.Key()] = struct{}{}
			if v := object.version(); v == "" || v != c.version(object.Key()) {
				c.put(object, changed)
			}
		}
		for _, key := range c.keys(kind) {
			if _, has := listed[key]; !has {
				c.remove(key, changed)
			}
		}
	})
}

// Pause defers all translations until Resume, so that the first state is complete.
func (c *Cache) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deferred = names{}
}

// Resume translates what was deferred; from then on changes are translated at once.
func (c *Cache) Resume() {
	c.change(func(changed names) {
		maps.Copy(changed, c.deferred)
		c.deferred = nil
	})
}

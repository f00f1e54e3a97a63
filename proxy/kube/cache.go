package kube

import (
	"maps"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/service"
)

// Cache keeps the newest Services, EndpointSlices and this node's Node, whatever source they come from, and puts what
// they mean into a Store. A change costs O(the Service it touches). Safe for concurrent use.
type Cache struct {
	store *service.Store
	opts  TranslateOptions
	log   logrus.FieldLogger

	mu            sync.Mutex
	owners        map[service.Name]*owner
	ownerOfSlice  map[Key]service.Name // by the label the slice had when it came
	node          *corev1.Node
	serviceEvents uint64
	sliceEvents   uint64
}

// owner is a Service and the slices that name it; either may be there without the other.
type owner struct {
	svc      *corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
	problems map[string]struct{} // said already
}

// NewCache returns an empty Cache that fills store. Problems are logged once each, until they change.
func NewCache(store *service.Store, opts TranslateOptions, log logrus.FieldLogger) *Cache {
	return &Cache{
		store:        store,
		opts:         opts,
		log:          log,
		owners:       map[service.Name]*owner{},
		ownerOfSlice: map[Key]service.Name{},
	}
}

// Set takes in the newest state of objects: *corev1.Service, *discoveryv1.EndpointSlice and *corev1.Node; others are
// ignored. The objects must not be changed afterwards.
func (c *Cache) Set(objects ...metav1.Object) { c.apply(objects, nil) }

// Delete forgets objects.
func (c *Cache) Delete(keys ...Key) { c.apply(nil, keys) }

// Changes counts the changes of Services and of EndpointSlices that came so far.
func (c *Cache) Changes() (services, endpointSlices uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.serviceEvents, c.sliceEvents
}

// Node is this node as its Node object describes it; false when there is none (yet).
func (c *Cache) Node() (Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.node == nil {
		return Node{}, false
	}
	return nodeOf(c.node), true
}

// apply takes in many changes as one: each Service they touch is translated once, so that nobody sees a Service
// without the slices that came with it.
func (c *Cache) apply(set []metav1.Object, gone []Key) {
	type line struct {
		svc  service.Name
		text string
	}
	var lines []line
	c.mu.Lock()
	touched := map[service.Name]struct{}{}
	for _, key := range gone {
		c.remove(key, touched)
	}
	for _, object := range set {
		c.put(object, touched)
	}
	for _, name := range slices.SortedFunc(maps.Keys(touched), compareNames) {
		for _, text := range c.translate(name) {
			lines = append(lines, line{name, text})
		}
	}
	c.mu.Unlock()
	for _, l := range lines {
		c.log.WithField("service", l.svc.String()).Warn(l.text)
	}
}

func (c *Cache) put(object metav1.Object, touched map[service.Name]struct{}) {
	switch o := object.(type) {
	case *corev1.Service:
		c.serviceEvents++
		name := service.Name{Namespace: o.Namespace, Name: o.Name}
		c.owner(name).svc = o
		touched[name] = struct{}{}
	case *discoveryv1.EndpointSlice:
		c.sliceEvents++
		c.putSlice(o, touched)
	case *corev1.Node:
		if o.Name == c.opts.NodeName {
			c.node = o
		}
	}
}

func (c *Cache) putSlice(o *discoveryv1.EndpointSlice, touched map[service.Name]struct{}) {
	key := Key{KindEndpointSlice, o.Namespace, o.Name}
	name := service.Name{Namespace: o.Namespace, Name: o.Labels[discoveryv1.LabelServiceName]}
	if before, has := c.ownerOfSlice[key]; has && before != name {
		c.removeSlice(key, touched)
	}
	if name.Name == "" {
		return // some other program's slice
	}
	c.owner(name).slices[o.Name] = o
	c.ownerOfSlice[key] = name
	touched[name] = struct{}{}
}

func (c *Cache) remove(key Key, touched map[service.Name]struct{}) {
	switch key.Kind {
	case KindService:
		name := service.Name{Namespace: key.Namespace, Name: key.Name}
		if o := c.owners[name]; o != nil && o.svc != nil {
			c.serviceEvents++
			o.svc = nil
			touched[name] = struct{}{}
		}
	case KindEndpointSlice:
		if c.removeSlice(key, touched) {
			c.sliceEvents++
		}
	case KindNode:
		if key.Name == c.opts.NodeName {
			c.node = nil
		}
	}
}

func (c *Cache) removeSlice(key Key, touched map[service.Name]struct{}) bool {
	name, has := c.ownerOfSlice[key]
	if !has {
		return false
	}
	delete(c.ownerOfSlice, key)
	delete(c.owners[name].slices, key.Name)
	touched[name] = struct{}{}
	return true
}

func (c *Cache) owner(name service.Name) *owner {
	o := c.owners[name]
	if o == nil {
		o = &owner{slices: map[string]*discoveryv1.EndpointSlice{}}
		c.owners[name] = o
	}
	return o
}

// translate brings the Store up to date with one Service and returns the problems not said before.
func (c *Cache) translate(name service.Name) (news []string) {
	o := c.owners[name]
	if o.svc == nil {
		c.store.Set(name, nil)
		o.problems = nil
		if len(o.slices) == 0 {
			delete(c.owners, name)
		}
		return nil
	}
	ports, problems := Translate(o.svc, slices.Collect(maps.Values(o.slices)), c.opts)
	c.store.Set(name, ports)
	now := make(map[string]struct{}, len(problems))
	for _, p := range problems {
		text := p.Error()
		if _, said := o.problems[text]; !said {
			news = append(news, text)
		}
		now[text] = struct{}{}
	}
	o.problems = now
	return news
}

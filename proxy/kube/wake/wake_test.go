package wake

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// rig is an API server with one workload, and a Waker.
type rig struct {
	*Waker
	t        *testing.T
	mu       sync.Mutex
	replicas int32 // of the workload; guarded by mu, as what follows
	version  string
	refuses  error // of each update
	gets     int
	said     []string
	gone     bool // the clients are
}

func newRig(t *testing.T, withServer bool) *rig {
	r := &rig{t: t, version: "1"}
	log := logrus.New()
	log.Out = io.Discard
	note := func(what string) func(service.Name, string) {
		return func(svc service.Name, text string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.said = append(r.said, what+" "+svc.String()+": "+text)
		}
	}
	waits := func(service.Name) bool { return !r.locked(func() bool { return r.gone }) }
	o := Options{Log: log,
		NeedPods: note("needs"), Scaled: note("scaled"), Failed: note("failed")}
	if withServer {
		o.Client = r
	}
	r.Waker = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { r.Run(ctx, waits) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
	})
	return r
}

func (r *rig) locked(f func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f()
}

// Scale implements Scaler.
func (r *rig) Scale(_ context.Context, resource, namespace, name string) (*autoscalingv1.Scale, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gets++
	if namespace != "shop" {
		r.t.Errorf("asked for the scale of %s/%s", namespace, name)
	}
	if name != "cart" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: resource}, name)
	}
	version := r.version
	if r.version == "stale" {
		version = "0"
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "cart", Namespace: "shop", ResourceVersion: version},
		Spec:       autoscalingv1.ScaleSpec{Replicas: r.replicas},
	}, nil
}

// UpdateScale implements Scaler.
func (r *rig) UpdateScale(_ context.Context, resource string, scale *autoscalingv1.Scale) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses != nil {
		return r.refuses
	}
	if scale.ResourceVersion != r.version {
		r.version, r.replicas = "9", 7 // as another node has it by now
		group := schema.GroupResource{Group: "apps", Resource: resource}
		return apierrors.NewConflict(group, scale.Name, errors.New("another version"))
	}
	r.replicas = scale.Spec.Replicas
	return nil
}

// wants has a client wait for an endpoint of shop/cart.
func (r *rig) wants(kind, name string, replicas int32) {
	p := &service.Port{Name: service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}}
	if kind != "" {
		p.Policy.Wake = service.Wake{Kind: kind, Name: name, Replicas: replicas}
	}
	r.Need(p)
}

// says waits until these were told, and no more.
func (r *rig) says(want ...string) {
	r.t.Helper()
	all := func() bool { return len(r.said) >= len(want) }
	for end := time.Now().Add(20 * time.Second); !r.locked(all) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	fits := len(r.said) == len(want)
	for i := 0; fits && i < len(want); i++ {
		fits = strings.Contains(r.said[i], want[i])
	}
	if !fits {
		r.t.Errorf("said %q, want %q", r.said, want)
	}
}

const needsPods = "needs shop/cart: The service-port shop/cart:http needs pods"

// A workload of each kind is scaled from 0, once; one that has replicas stays as it is.
func TestScalesFromZero(t *testing.T) {
	for _, kind := range service.WakeKinds() {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, true)
			r.wants(kind, "cart", 3)
			r.says(needsPods, "scaled shop/cart: "+kind+"/cart is scaled from 0 to 3")
			if r.locked(func() bool { return r.replicas != 3 }) {
				t.Errorf("%d replicas", r.replicas)
			}
			r.wants(kind, "cart", 5)
			r.says(needsPods, "scaled", needsPods)
			if r.locked(func() bool { return r.replicas != 3 }) {
				t.Errorf("%d replicas", r.replicas)
			}
		})
	}
}

// A workload that another node has scaled between our two requests is left alone.
func TestAnotherNodeWasFaster(t *testing.T) {
	r := newRig(t, true)
	r.version = "stale"
	r.wants("deployment", "cart", 1)
	r.says(needsPods)
	if r.locked(func() bool { return r.replicas != 7 || r.gets != 2 }) {
		t.Errorf("%d replicas after %d reads", r.replicas, r.gets)
	}
}

// Without the right, or a workload of the name, that is said once with what to do, and tried again later as long as
// clients wait.
func TestFailuresAreSaidOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := newRig(t, true)
	r.refuses = apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments/scale"}, "cart",
		errors.New("no rule"))
	r.wants("deployment", "cart", 1)
	r.says(needsPods, "get and update on deployments.apps/scale")
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		r.wants("deployment", "cart", 1) // clients come all the time
		if r.locked(func() bool { return r.gets > 1 }) {
			break
		}
	}
	r.says(needsPods, "failed")
	r.locked(func() bool {
		if r.gets != 2 {
			t.Errorf("%d tries in about a second", r.gets)
		}
		r.refuses = nil
		return true
	})
	r.says(needsPods, "failed", "scaled")
}

func TestNothingIsTriedForThoseThatLeft(t *testing.T) {
	r := newRig(t, true)
	r.wants("deployment", "other", 1)
	r.says(needsPods, "namespace shop has none of that name")
	r.locked(func() bool { r.gone = true; return true })
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if r.left() == 0 {
			break
		}
	}
	if n := r.left(); n != 0 || r.gets != 1 {
		t.Errorf("%d needs are left after %d tries", n, r.gets)
	}
}

// Without a workload, or an API server, clients are told of alone.
func TestNothingToScale(t *testing.T) {
	r := newRig(t, true)
	r.wants("", "", 0)
	r.says(needsPods)
	alone := newRig(t, false)
	alone.wants("deployment", "cart", 1)
	alone.says(needsPods)
	if r.gets+alone.gets != 0 || r.left()+alone.left() != 0 {
		t.Errorf("%d and %d requests, %d needs", r.gets, alone.gets, r.left())
	}
}

// A namespace with many Services does not delay Services of others for long.
func TestNamespacesShare(t *testing.T) {
	w := New(Options{}) // nothing runs
	for i := range 3 * mostNeeds {
		w.Need(&service.Port{Name: service.PortName{Namespace: "many", Name: string(rune('a' + i))}})
	}
	w.Need(&service.Port{Name: service.PortName{Namespace: "shop", Name: "cart"}})
	if n := w.queue.Len(); n != mostNeeds+1 {
		t.Errorf("%d Services are queued", n)
	}
	for svc, n := range w.needs {
		w.done(svc, n)
	}
	if len(w.needs)+len(w.of) != 0 {
		t.Errorf("left: %v %v", w.needs, w.of)
	}
}

// left is how many Services are to be looked at.
func (r *rig) left() int {
	r.Waker.mu.Lock()
	defer r.Waker.mu.Unlock()
	return len(r.Waker.needs)
}

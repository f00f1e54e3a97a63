package translate

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
)

// debugBed is a Cache of a node in kernel mode with one Service, in a bubble of time.
type debugBed struct {
	*testing.T
	cache *Cache
	store *service.Store
	log   *logtest.Hook
	svc   *corev1.Service
}

func inDebugBed(t *testing.T, opts Options, test func(b *debugBed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log, hook := logtest.NewNullLogger()
		b := &debugBed{T: t, store: service.NewStore(), log: hook}
		b.cache = NewCache(b.store, opts, log)
		b.svc, _ = objecttest.Objects(t, objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: a, port: 80}, "+
			"{name: s, port: 81, protocol: SCTP}]}"))
		test(b)
		b.cache.Delete(Key{KindService, "shop", "cart"})
	})
}

// annotate sets an annotation, empty to remove it.
func (b *debugBed) annotate(name, value string) {
	b.svc = b.svc.DeepCopy()
	if b.svc.Annotations == nil {
		b.svc.Annotations = map[string]string{}
	}
	if b.svc.Annotations[annotationPrefix+name] = value; value == "" {
		delete(b.svc.Annotations, annotationPrefix+name)
	}
	b.cache.Set(b.svc)
}

func (b *debugBed) until(d time.Duration) {
	b.annotate(service.DebugUntil, time.Now().Add(d).Format(time.RFC3339))
}

// wants compares the modes of the TCP and the SCTP port, and the problems.
func (b *debugBed) wants(when, modes string, problems ...string) {
	b.Helper()
	synctest.Wait()
	var got []string
	ports, _ := b.store.All()
	for _, p := range ports {
		mode := p.Mode.String()
		if p.DebugUntil != nil {
			mode += "!"
		}
		got = append(got, mode)
	}
	if text := strings.Join(got, " "); text != modes {
		b.Errorf("%s: the modes are %q, want %q", when, text, modes)
	}
	var all []Problem
	b.cache.EachProblem(func(_ service.Name, p Problem) { all = append(all, p) })
	wantProblems(b.T, problems, all)
}

// Until its time a Service is in userspace mode, as far as that carries its ports; then it is what it was, without any
// word of the API server. What has expired does not count after a restart.
func TestDebugUntil(t *testing.T) {
	inDebugBed(t, Options{Mode: service.ModeKernel}, func(b *debugBed) {
		b.annotate("retries", "2")
		const noRetries = "annotations[portald.io/retries]: \"2\": has no effect where the kernel carries"
		b.wants("before", " ", noRetries)
		b.until(10 * time.Minute)
		b.wants("while it is debugged", "userspace! ")
		time.Sleep(10*time.Minute - time.Second)
		b.wants("just before the time", "userspace! ")
		time.Sleep(2 * time.Second)
		b.wants("after it", " ", noRetries)
		b.cache.Set(b.svc)
		b.wants("when it is seen again", " ", noRetries)
		b.until(0)
		b.wants("with a time that is over", " ", noRetries)
	})
}

// The mode that a Service has by itself counts again, even if it was set meanwhile; an end before the time counts too,
// and so does a later time.
func TestDebugUntilIsChanged(t *testing.T) {
	inDebugBed(t, Options{Mode: service.ModeUserspace}, func(b *debugBed) {
		sctp := `spec.ports[1].protocol: "SCTP"`
		b.annotate("mode", "kernel")
		b.wants("before", "kernel kernel")
		b.until(time.Minute)
		b.wants("while it is debugged", "userspace! kernel")
		b.annotate("mode", "")
		b.wants("without a mode", "userspace! ", sctp)
		b.annotate("mode", "kernel")
		b.until(time.Hour)
		time.Sleep(30 * time.Minute)
		b.wants("with a later time", "userspace! kernel")
		b.until(time.Minute)
		time.Sleep(2 * time.Minute)
		b.wants("with an earlier time", "kernel kernel")
		b.until(time.Hour)
		b.annotate(service.DebugUntil, "")
		b.wants("when it was removed", "kernel kernel")
		time.Sleep(2 * time.Hour)
		b.wants("long after", "kernel kernel")
		b.until(time.Hour)
		b.cache.Delete(Key{KindService, "shop", "cart"})
		b.wants("when the Service is gone", "")
		time.Sleep(2 * time.Hour)
		b.wants("when its time is over", "")
	})
}

// What cannot be is a problem, and changes nothing; a time too far ahead does not count either when it has come near.
func TestDebugUntilIsRefused(t *testing.T) {
	const field = "service shop/cart: metadata.annotations[portald.io/debug-until]: "
	inDebugBed(t, Options{Mode: service.ModeKernel}, func(b *debugBed) {
		for _, text := range []string{"10m", "2026-11-28", "soon", "0001-01-01T00:00:00Z"} {
			b.annotate(service.DebugUntil, text)
			b.wants(text, " ", fmt.Sprintf("%s%q: must be a time such as 2026-11-28T10:20:00Z (RFC 3339); the Service keeps "+
				"its mode", field, text))
		}
		b.until(service.MostDebug + time.Second)
		const far = "is more than 24h ahead of this node's clock; the Service keeps its mode; write an earlier time"
		b.wants("too far ahead", " ", far)
		time.Sleep(2 * time.Hour)
		b.annotate("connection-log", "all")
		b.wants("no longer too far ahead", " ", far)
		b.until(service.MostDebug)
		b.wants("just near enough", "userspace! ")
		b.annotate(service.DebugUntil, "")
		b.wants("removed", " ")
	})
	for _, refused := range []string{service.DebugUntil, "mode", service.AllSettings} {
		inDebugBed(t, Options{Mode: service.ModeKernel, RefusedAnnotations: []string{refused}}, func(b *debugBed) {
			b.until(time.Hour)
			b.wants("refused", " ", "is refused on this node (refusedAnnotations); the Service keeps its mode")
		})
	}
}

// Each Service has its own time, and the end of one translates no other.
func TestDebugUntilOfMany(t *testing.T) {
	inDebugBed(t, Options{Mode: service.ModeKernel}, func(b *debugBed) {
		const many = 1000
		for i := range many {
			svc := b.svc.DeepCopy()
			svc.Name, svc.Spec.ClusterIP = fmt.Sprint("cart-", i), fmt.Sprintf("10.97.%d.%d", i/250, i%250+1)
			svc.Annotations = map[string]string{
				"portald.io/debug-until": time.Now().Add(time.Duration(i+1) * time.Minute).Format(time.RFC3339),
			}
			b.cache.Set(svc)
		}
		synctest.Wait()
		b.store.Take()
		for i := range many {
			time.Sleep(time.Minute)
			synctest.Wait()
			changes, _ := b.store.Take()
			if len(changes) != 1 {
				t.Fatalf("in minute %d %d service ports change", i+1, len(changes))
			}
		}
		for i := range many {
			b.cache.Delete(Key{KindService, "shop", fmt.Sprint("cart-", i)})
		}
	})
}

package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/translate"
)

// recording returns a Recorder that runs until the test ends.
func (s *apiServer) recording() *Recorder {
	r := NewRecorder(s, s.cache, s.log)
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		check(s.t, <-done)
	})
	return r
}

// events are those that were written, a line each, ordered.
func (s *apiServer) events() (out []string) {
	s.t.Helper()
	list, err := s.EventsV1().Events("").List(s.t.Context(), metav1.ListOptions{})
	check(s.t, err)
	for _, e := range list.Items {
		out = append(out, eventLine(&e))
	}
	slices.Sort(out)
	return out
}

func (s *apiServer) eventNames() (out []string) {
	s.t.Helper()
	list, err := s.EventsV1().Events("").List(s.t.Context(), metav1.ListOptions{})
	check(s.t, err)
	for _, e := range list.Items {
		out = append(out, e.Name)
	}
	return out
}

func eventLine(e *eventsv1.Event) string {
	ref := e.Regarding
	return fmt.Sprintf("%s %s %s/%s uid=%s version=%s field=%s: %s %s by %s at %s: %s", e.Type, ref.Kind, e.Namespace,
		ref.Name, ref.UID,
		ref.ResourceVersion, ref.FieldPath, e.Reason, e.Action, e.ReportingController, e.ReportingInstance, e.Note)
}

func TestEvents(t *testing.T) { synctest.Test(t, testEvents) }

func testEvents(t *testing.T) {
	s := newAPIServer(t, translate.Options{NodeName: "n1"})
	r := s.recording()
	s.cache.Report = r.Problem
	r.Starting()
	time.Sleep(time.Second) // the library names events by their times
	svc, _ := cartAt(t, "10.244.0.1")
	svc.UID = "u1"
	svc.Annotations = map[string]string{"portald.io/retries": "often", "portald.io/modus": "x"}
	svc.Spec.HealthCheckNodePort = 32000
	s.cache.Set(svc)
	s.cache.Set(svc)
	r.ServiceWarning(service.Name{Namespace: "shop", Name: "unknown"}, "FailedToStartServiceHealthcheck", "Listen",
		strings.Repeat("é", 2000))
	r.ServiceWarning(service.Name{Namespace: "shop", Name: "unwell"}, "Hostile", "Listen", "a\x1b[2J\n\u202eb\x9b")
	r.NodeWarning("ReadOnlyConntrack", "WriteConntrack", "100% sure")
	const by = " by portald at n1: "
	want := []string{
		"Normal Node default/n1 uid=n1 version= field=: Starting StartKubeProxy" + by +
			"portald serves the Services of this node",
		"Warning Node default/n1 uid=n1 version= field=: ReadOnlyConntrack WriteConntrack" + by + "100% sure",
		"Warning Service shop/cart uid=u1 version=1 field=metadata.annotations[portald.io/modus]: InvalidSetting " +
			"UseDefault" + by +
			`service shop/cart: metadata.annotations[portald.io/modus]: "x": is unknown and has no effect; known are ` +
			strings.Join(service.SettingNames(), ", "),
		"Warning Service shop/cart uid=u1 version=1 field=metadata.annotations[portald.io/retries]: InvalidSetting " +
			"UseDefault" + by +
			`service shop/cart: metadata.annotations[portald.io/retries]: "often": must be a number from 0 to 15; the daemon's setting is used`,
		"Warning Service shop/cart uid=u1 version=1 field=spec.healthCheckNodePort: InvalidField LeaveOut" + by +
			"service shop/cart: spec.healthCheckNodePort: 32000: needs spec.type LoadBalancer and " +
			"spec.externalTrafficPolicy Local; write them, or remove the port",
		"Warning Service shop/unknown uid= version= field=: FailedToStartServiceHealthcheck Listen" + by +
			strings.Repeat("é", 510) + "…",
		"Warning Service shop/unwell uid= version= field=: Hostile Listen" + by + `a\x1b[2J\n\u202eb\x9b`,
	}
	time.Sleep(time.Minute)
	if diff := cmp.Diff(want, s.events()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A Service's own problem is one event, however many nodes see it, and they do not ask the API server more often than
// one in a while. While it stands, the event is there, which the server forgets after an hour.
func TestEventsOfManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, services = 10, 10
		s := newAPIServer(t, translate.Options{NodeName: "n1"})
		svc, _ := cartAt(t, "10.244.0.1")
		svc.UID, svc.Annotations = "u1", map[string]string{"portald.io/retries": "often"}
		creates, wrote := 0, map[string]bool{}
		var mu sync.Mutex
		s.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			creates++
			wrote[a.(clienttesting.CreateAction).GetObject().(*eventsv1.Event).ReportingInstance] = true
			return false, nil, nil
		})
		for n := range nodes {
			cache := translate.NewCache(service.NewStore(), translate.Options{NodeName: fmt.Sprint("n", n)}, s.log)
			r := NewRecorder(s, cache, s.log)
			go r.Run(t.Context())
			cache.Report = r.Problem
			for i := range services {
				one := svc.DeepCopy()
				one.Name, one.UID = fmt.Sprint("s", i), types.UID(fmt.Sprint("u", i))
				cache.Set(one)
			}
		}
		time.Sleep(3 * time.Minute)
		if n := len(s.events()); n != services {
			t.Errorf("%d events of %d Services", n, services)
		}
		mu.Lock()
		requests := creates
		mu.Unlock()
		if requests > 12*nodes {
			t.Errorf("%d nodes asked %d times in three minutes", nodes, requests)
		}
		t.Logf("%d requests in three minutes, by %d nodes", requests, len(wrote))
		for _, name := range s.eventNames() {
			check(t, s.EventsV1().Events("shop").Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		time.Sleep(2 * renewal)
		if n := len(s.events()); n != services {
			t.Errorf("%d events of %d Services when the first are forgotten", n, services)
		}
	})
}

// A problem of a Service that has changed is another event.
func TestEventsOfWhatIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t, translate.Options{NodeName: "n1"})
		r := s.recording()
		name := service.Name{Namespace: "shop", Name: "cart"}
		for version := range 2 {
			svc, _ := cartAt(t, "10.244.0.1")
			svc.UID, svc.ResourceVersion = "u1", fmt.Sprint(version)
			s.cache.Set(svc)
			for range 3 {
				r.Refused(name, "shop/cart:http", fmt.Sprint("for some reason ", rand.Int()))
			}
			r.Served(name, "shop/cart:http")
			r.Contested(name, "10.0.0.1:80 is taken")
		}
		time.Sleep(10 * time.Minute)
		if got := s.events(); len(got) != 5 {
			t.Errorf("%d events: %s", len(got), strings.Join(got, "\n"))
		}
	})
}

// Nobody waits for events: neither when no Recorder runs, nor when there are many. The server gets them at a bounded
// rate.
func TestEventsNeverBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t, translate.Options{NodeName: "n1"})
		var none *Recorder
		none.Starting()
		none.Problem(service.Name{}, translate.Problem{})
		none.ServiceWarning(service.Name{}, "A", "B", "c")
		idle := NewRecorder(s, s.cache, s.log)
		r := s.recording()
		start := time.Now()
		for i := range 1000 {
			idle.NodeWarning("Again", "Again", "")
			r.ServiceWarning(service.Name{Namespace: "shop", Name: fmt.Sprint("s", i)}, "Many", "Write", "")
		}
		if time.Since(start) > 0 {
			t.Error("waited", time.Since(start))
		}
		time.Sleep(10 * time.Second)
		if n := len(s.events()); n < eventsAtOnce || n > eventsAtOnce+12 {
			t.Errorf("%d events in ten seconds", n)
		}
	})
}

func TestEventsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t, translate.Options{NodeName: "n1"})
		s.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "",
				errors.New("no rule"))
		})
		r := s.recording()
		r.Starting()
		r.NodeWarning("Else", "Else", "")
		time.Sleep(time.Hour)
		if said := s.said(); len(said) != 1 || !strings.Contains(said[0], "let a ClusterRole grant this account the "+
			"verbs create and patch on events.events.k8s.io") {
			t.Errorf("said %q", said)
		}
	})
}

// Events of a node that happen again are one, with a count; it is written as the series begins and when it is over.
func TestEventSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t, translate.Options{NodeName: "n1"})
		r := s.recording()
		written := func() (count int32) {
			list, err := s.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
			check(t, err)
			if len(list.Items) != 1 {
				t.Fatalf("%d events", len(list.Items))
			}
			if series := list.Items[0].Series; series != nil {
				count = series.Count
			}
			return count
		}
		for _, want := range []int32{0, 2, 2, 2} {
			r.NodeWarning("Again", "Again", "")
			time.Sleep(time.Minute)
			if got := written(); got != want {
				t.Errorf("a count of %d, want %d", got, want)
			}
		}
		time.Sleep(3 * seriesEnd)
		if got := written(); got != 4 {
			t.Errorf("when it is over: a count of %d, want 4", got)
		}
		r.NodeWarning("Again", "Again", "")
		time.Sleep(time.Minute)
		if n := len(s.events()); n != 2 {
			t.Errorf("%d events after the series, want another one", n)
		}
	})
}

// An event that the API server does not take for a while is written in the end.
func TestEventIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer(t, translate.Options{NodeName: "n1"})
		tries := 0
		s.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			tries++
			return tries < 4, nil, away("", "", "")
		})
		s.recording().Starting()
		time.Sleep(time.Minute)
		if n := len(s.events()); n != 1 || tries != 4 {
			t.Errorf("%d events after %d tries", n, tries)
		}
	})
}

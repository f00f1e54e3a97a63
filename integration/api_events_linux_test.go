package integration

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/cluster"
)

// nodeEvents tell of each start.
func nodeEvents(b *apiBed, _ *cluster.Namespace) {
	for _, s := range b.sites[:2] {
		e := b.event("of the start of "+s.name, "default", func(e *eventsv1.Event) bool {
			return e.Reason == "Starting" && e.Regarding.Kind == "Node" && e.Regarding.Name == s.name && e.ReportingController == "portald"
		})
		if e.Type != corev1.EventTypeNormal || e.Action != "StartKubeProxy" || e.ReportingInstance != s.name {
			b.Errorf("node %s: event %s", s.name, describe(e))
		}
	}
}

// serviceEvents tell of what in a Service is not served as it is written, and nothing else suffers from that.
func serviceEvents(b *apiBed, n *cluster.Namespace) {
	const free, other, contested = "203.0.113.200", "203.0.113.20", "203.0.113.201"
	older := n.Service("a-older", corev1.ServiceSpec{ExternalIPs: []string{free, other, contested}, Ports: web()})
	n.Service("b-younger", corev1.ServiceSpec{ExternalIPs: []string{contested}, Ports: web()})
	b.addPods(n, "a-older", "a0")
	b.addPods(n, "b-younger", "b0")
	n.Kubectl("", "annotate", "service", "a-older", "portald.io/retries=many", "portald.io/idle-timout=5s", "portald.io/udp-timeout=10s")
	for _, want := range []struct{ service, reason, says string }{
		{"a-older", "InvalidField", "spec.externalIPs[1]: \"" + other + "\""},
		{"a-older", "InvalidSetting", "portald.io/retries]: \"many\""},
		{"a-older", "InvalidSetting", "portald.io/idle-timout]"},
		{"b-younger", "AddressTaken", contested},
	} {
		e := b.event("that says "+want.says, "service-events", func(e *eventsv1.Event) bool {
			return e.Regarding.Name == want.service && e.Reason == want.reason && strings.Contains(e.Note, want.says)
		})
		if e.Type != corev1.EventTypeWarning || e.Regarding.Kind != "Service" || e.Regarding.UID == "" || e.ReportingController != "portald" {
			b.Errorf("event %s", describe(e))
		}
	}
	b.answersBoth(b.sites[0].client, on80(older.Spec.ClusterIP), "a0")
	b.answersBoth(b.sites[0].client, on80(free), "a0")
	b.answersBoth(b.sites[0].client, on80(contested), "a0")
	b.answers(b.sites[0].client, "tcp", on80(other), silence)
	if shown := n.Kubectl("", "describe", "service", "a-older"); !strings.Contains(shown, "InvalidSetting") {
		b.Errorf("kubectl describe shows no event:\n%s", shown)
	}
	n.DeleteService("a-older")
	b.answersBoth(b.sites[0].client, on80(contested), "b0")
	b.toldOnce("service-events", `"many"`)
}

// toldOnce waits until the nodes have told of a mistake, each once.
func (b *apiBed) toldOnce(namespace, mistake string) {
	b.Helper()
	told := map[string]int{}
	b.eventually("each node to tell of "+mistake, func() bool {
		clear(told)
		for _, e := range b.events(namespace) {
			if strings.Contains(e.Note, mistake) {
				told[e.ReportingInstance]++
			}
		}
		return told["a"] > 0 && told["b"] > 0
	})
	if told["a"] != 1 || told["b"] != 1 {
		b.Errorf("nodes told of %s %v times, want once", mistake, told)
	}
}

// event waits for one.
func (b *apiBed) event(what, namespace string, is func(*eventsv1.Event) bool) (found *eventsv1.Event) {
	b.Helper()
	defer func() {
		if b.Failed() {
			for _, e := range b.events(namespace) {
				b.Log(describe(&e))
			}
		}
	}()
	b.eventually("the event "+what, func() bool {
		for _, e := range b.events(namespace) {
			if is(&e) {
				found = &e
				return true
			}
		}
		return false
	})
	return found
}

func (b *apiBed) events(namespace string) []eventsv1.Event {
	b.Helper()
	list, err := b.api.Admin.EventsV1().Events(namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

func describe(e *eventsv1.Event) string {
	return fmt.Sprintf("%s %s of %s %s, %s, by %s on %s: %s", e.Type, e.Reason, e.Regarding.Kind, e.Regarding.Name, e.Action,
		e.ReportingController, e.ReportingInstance, e.Note)
}

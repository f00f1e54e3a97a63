package integration

import (
	"fmt"
	"regexp"
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
	b.toldOnce("service-events")
}

// toldOnce waits until a node has found that another one told of something already, and that nothing was told of twice: what
// is wrong with a Service is so on every node.
func (b *apiBed) toldOnce(namespace string) {
	b.Helper()
	b.eventually("a node to find that another one has told", func() bool {
		for _, s := range b.sites[:2] {
			_, metrics, err := fetch(s.node, "127.0.0.1:10249", "/metrics")
			if err == nil && conflict.MatchString(metrics) {
				return true
			}
		}
		return false
	})
	told := map[string]int{}
	for _, e := range b.events(namespace) {
		what := fmt.Sprint(e.Regarding.Name, e.Regarding.FieldPath, e.Reason, e.Note)
		if told[what]++; told[what] > 1 {
			b.Errorf("told %d times: %s", told[what], describe(&e))
		}
	}
}

// conflict is the API server's answer to who makes what is there.
var conflict = regexp.MustCompile(`rest_client_requests_total\{code="409",.*method="POST"`)

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

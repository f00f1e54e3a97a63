package api

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	eventsv1 "k8s.io/api/events/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// nodeEvents checks that each start of portald creates an event of the Node.
func nodeEvents(b *apibed.Bed, _ *cluster.Namespace) {
	for _, s := range b.Sites[:2] {
		e := event(b, "of the start of "+s.Name, "default", func(e *eventsv1.Event) bool {
			return e.Reason == "Starting" && e.Regarding.Kind == "Node" && e.Regarding.Name == s.Name &&
				e.ReportingController == "portald"
		})
		if e.Type != corev1.EventTypeNormal || e.Action != "StartKubeProxy" || e.ReportingInstance != s.Name {
			b.Errorf("node %s: event %s", s.Name, describe(e))
		}
	}
}

// serviceEvents checks that mistakes in a Service create events, and that the rest of the Service is served.
func serviceEvents(b *apibed.Bed, n *cluster.Namespace) {
	const free, other, contested = "203.0.113.200", "203.0.113.20", "203.0.113.201"
	older := n.Service("a-older", corev1.ServiceSpec{ExternalIPs: []string{free, other, contested}, Ports: apibed.Web()})
	n.Service("b-younger", corev1.ServiceSpec{ExternalIPs: []string{contested}, Ports: apibed.Web()})
	b.AddPods(n, "a-older", "a0")
	b.AddPods(n, "b-younger", "b0")
	n.Kubectl("", "annotate", "service", "a-older", "portald.io/retries=many", "portald.io/idle-timout=5s",
		"portald.io/udp-timeout=10s")
	for _, want := range []struct{ service, reason, says string }{
		{"a-older", "InvalidField", "spec.externalIPs[1]: \"" + other + "\""},
		{"a-older", "InvalidSetting", "portald.io/retries]: \"many\""},
		{"a-older", "InvalidSetting", "portald.io/idle-timout]"},
		{"b-younger", "AddressTaken", contested},
	} {
		e := event(b, "that says "+want.says, "service-events", func(e *eventsv1.Event) bool {
			return e.Regarding.Name == want.service && e.Reason == want.reason && strings.Contains(e.Note, want.says)
		})
		if e.Type != corev1.EventTypeWarning || e.Regarding.Kind != "Service" || e.Regarding.UID == "" ||
			e.ReportingController != "portald" {
			b.Errorf("event %s", describe(e))
		}
	}
	b.AnswersBoth(b.Sites[0].Client, apibed.On80(older.Spec.ClusterIP), "a0")
	b.AnswersBoth(b.Sites[0].Client, apibed.On80(free), "a0")
	b.AnswersBoth(b.Sites[0].Client, apibed.On80(contested), "a0")
	b.Answers(b.Sites[0].Client, "tcp", apibed.On80(other), apibed.NoReply)
	if shown := n.Kubectl("", "describe", "service", "a-older"); !strings.Contains(shown, "InvalidSetting") {
		b.Errorf("kubectl describe shows no event:\n%s", shown)
	}
	n.DeleteService("a-older")
	b.AnswersBoth(b.Sites[0].Client, apibed.On80(contested), "b0")
	reportedOnce(b, "service-events")
}

// reportedOnce checks that no event exists twice, although every node finds the same mistake: it waits until one node
// has got a conflict for an event that another node had created.
func reportedOnce(b *apibed.Bed, namespace string) {
	b.Helper()
	b.Eventually("a node to get a conflict for an event of another node", func() bool {
		for _, s := range b.Sites[:2] {
			_, metrics, err := bed.Fetch(s.Node, "127.0.0.1:10249", "/metrics")
			if err == nil && conflict.MatchString(metrics) {
				return true
			}
		}
		return false
	})
	reported := map[string]int{}
	for _, e := range events(b, namespace) {
		what := fmt.Sprint(e.Regarding.Name, e.Regarding.FieldPath, e.Reason, e.Note)
		if reported[what]++; reported[what] > 1 {
			b.Errorf("reported %d times: %s", reported[what], describe(&e))
		}
	}
}

// conflict matches the metric of POST requests for an object that already exists (409).
var conflict = regexp.MustCompile(`rest_client_requests_total\{code="409",.*method="POST"`)

// event waits for an event for which is returns true; what describes it in the failure message.
func event(b *apibed.Bed, what, namespace string, is func(*eventsv1.Event) bool) (found *eventsv1.Event) {
	b.Helper()
	defer func() {
		if b.Failed() {
			for _, e := range events(b, namespace) {
				b.Log(describe(&e))
			}
		}
	}()
	b.Eventually("the event "+what, func() bool {
		for _, e := range events(b, namespace) {
			if is(&e) {
				found = &e
				return true
			}
		}
		return false
	})
	return found
}

func events(b *apibed.Bed, namespace string) []eventsv1.Event {
	b.Helper()
	list, err := b.API.Admin.EventsV1().Events(namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

func describe(e *eventsv1.Event) string {
	return fmt.Sprintf("%s %s of %s %s, %s, by %s on %s: %s", e.Type, e.Reason, e.Regarding.Kind, e.Regarding.Name,
		e.Action,
		e.ReportingController, e.ReportingInstance, e.Note)
}

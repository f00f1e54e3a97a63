package api

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// withoutEffect checks that what a Service asks for, or the daemon for all, and the kernel does not do, is an event of
// the Service, a line in the log and a problem in lists: when the Service changes to the kernel, and when the daemon's
// setting changes. It ends when the Service changes back.
func withoutEffect(b *apibed.Bed, n *cluster.Namespace) {
	const name = "without-effect"
	warned := func(svc, says string) {
		b.Helper()
		e := event(b, "that says "+says, name, func(e *eventsv1.Event) bool {
			return e.Regarding.Name == svc && strings.Contains(e.Note, says)
		})
		if e.Type != corev1.EventTypeWarning || e.Reason != "InvalidSetting" || e.Action != "UseDefault" ||
			e.Regarding.Kind != "Service" || e.Regarding.UID == "" || e.ReportingController != "portald" {
			b.Errorf("event %s", describe(e))
		}
	}
	n.Service("own", corev1.ServiceSpec{Ports: apibed.Web()})
	n.Kubectl("", "annotate", "service", "own", "portald.io/mode=kernel", "portald.io/client-address=proxy-v2",
		"portald.io/retries=2")
	const none = "has no effect where the kernel carries the Service"
	warned("own", `portald.io/client-address]: "proxy-v2": `+none+": endpoints get no PROXY protocol header")
	warned("own", `portald.io/retries]: "2": `+none)
	if shown := n.Kubectl("", "describe", "service", "own"); !strings.Contains(shown, "InvalidSetting") {
		b.Errorf("kubectl describe shows no event:\n%s", shown)
	}

	s := b.Sites[11]
	const file = "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\nclientAddress: "
	path := s.WriteManifest("header.yaml", file+"node\n")
	const proxy = "header" // a daemon of its own Services: problems of others, which have their event, make it wait
	d := b.ServeOn(s, "--config="+path, "--service-proxy-name="+proxy, "--on-exit=remove")
	n.Service("plain", corev1.ServiceSpec{Ports: apibed.Web()})
	b.AddPods(n, "plain", "l0")
	n.ChangeService("plain", func(s *corev1.Service) {
		s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": proxy}
		s.Annotations = map[string]string{"portald.io/mode": "kernel"}
	})
	problem := func() string {
		text, err := d.Try(d.Node, bed.Portald, "services", name+"/plain:http", "--no-headers", "--socket", d.Socket)
		if err != nil {
			return "" // it is not known yet
		}
		return text
	}
	b.Eventually("the kernel to carry it", func() bool { return strings.Contains(problem(), "kernel") })
	const header = "portald.io/client-address]: the daemon's proxy-v2: " + none
	told := func() int {
		return strings.Count(d.Log.String(), "service "+name+"/plain: metadata.annotations["+header)
	}
	if told() > 0 || strings.Contains(problem(), "proxy-v2") {
		b.Errorf("there is no header to miss, and still it is told: %s", problem())
	}
	s.WriteManifest("header.yaml", file+"proxy-v2\n")
	warned("plain", header)
	b.Eventually("a problem in portald services", func() bool {
		return strings.Contains(problem(), "portald.io/client-address: the daemon's proxy-v2 "+none)
	})
	n.Kubectl("", "annotate", "service", "plain", "portald.io/connection-log=all")
	n.Kubectl("", "annotate", "--overwrite", "service", "plain", "portald.io/mode=userspace")
	b.Eventually("no problem in userspace", func() bool { return !strings.Contains(problem(), "proxy-v2") })
	if got := told(); got != 1 {
		b.Errorf("it is in the log %d times, want 1:\n%s", got, d.Log)
	}
	if code := d.Stop(); code != 0 {
		b.Errorf("portald ended with code %d", code)
	}
	s.D = nil
}

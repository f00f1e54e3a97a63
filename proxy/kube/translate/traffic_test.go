package translate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/proxy/kube/objecttest"
)

// translated returns the service ports of YAML documents, as text, and their problems.
func translated(t *testing.T, text string, opts Options) (rendered string, problems []Problem) {
	t.Helper()
	svc, endpointSlices := objecttest.Objects(t, text)
	out, problems := ports(svc, endpointSlices, opts)
	return objecttest.Render(out), problems
}

// wantProblems fails unless each problem has its part, in order.
func wantProblems(t *testing.T, want []string, got []Problem) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d problems, want %d: %v", len(got), len(want), got)
	}
	for i, part := range want {
		if !strings.Contains(got[i].Error(), part) {
			t.Errorf("problem %d: %v\nwant %s", i, got[i], part)
		}
	}
}

func TestTrafficPolicies(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		want       string // behind the name of the port
		problems   []string
	}{
		{"by default", "{ports: [{port: 80}]}", "", nil},
		{"Cluster", "{type: NodePort, internalTrafficPolicy: Cluster, externalTrafficPolicy: Cluster, ports: [{port: 80}]}",
			"", nil},
		{"internal Local", "{internalTrafficPolicy: Local, ports: [{port: 80}]}", " internal-local", nil},
		{"external Local on a NodePort", "{type: NodePort, externalTrafficPolicy: Local, ports: [{port: 80}]}",
			" external-local", nil},
		{"both", "{type: NodePort, externalTrafficPolicy: Local, internalTrafficPolicy: Local, ports: [{port: 80}]}",
			" internal-local external-local", nil},
		{"external Local, reached from inside only", "{externalTrafficPolicy: Local, ports: [{port: 80}]}", "", nil},
		{
			"external Local by external IPs", "{externalTrafficPolicy: Local, externalIPs: [203.0.113.1], ports: [{port: " +
				"80}]}", " external-local",
			[]string{"external IPs are disabled"},
		},
		{
			"a health check port", "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32000, " +
				"ports: [{port: 80}]}",
			" external-local health-check 32000", nil,
		},
		{
			"a health check port without the policy", "{type: LoadBalancer, healthCheckNodePort: 32000, ports: [{port: 80}]}",
			"",
			[]string{"spec.healthCheckNodePort: 32000: needs spec.type LoadBalancer and spec.externalTrafficPolicy Local"},
		},
		{
			"a health check port of another type",
			"{type: NodePort, externalTrafficPolicy: Local, healthCheckNodePort: 32000, ports: [{port: 80}]}",
			" external-local", []string{"spec.healthCheckNodePort: 32000: needs"},
		},
		{
			"a health check port out of range", "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: " +
				"70000, ports: [{port: 80}]}",
			" external-local", []string{"spec.healthCheckNodePort: 70000: must be 1 to 65535"},
		},
		{
			"policies that nobody knows", "{type: NodePort, internalTrafficPolicy: local, externalTrafficPolicy: Zone, " +
				"ports: [{port: 80}]}", "",
			[]string{
				`spec.internalTrafficPolicy: "local": is not a traffic policy, Cluster is used; write Cluster or Local`,
				`spec.externalTrafficPolicy: "Zone": is not a traffic policy`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problems := translated(t, objecttest.Service("spec: "+strings.Replace(c.spec, "{", "{clusterIP: 10.96.0.7, ",
				1)), Options{})
			if diff := cmp.Diff("shop/cart/tcp"+c.want+"\n  ClusterIP 10.96.0.7:80/tcp\n", got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			wantProblems(t, c.problems, problems)
		})
	}
}

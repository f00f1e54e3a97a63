package api

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	rbacv1 "k8s.io/api/rbac/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// TestAPIAccess runs portald with limited RBAC rights.
func TestAPIAccess(t *testing.T) {
	topology.Require(t, "setpriv")
	b := apibed.New(t, 2, 1, "--user=jane")
	t.Run("in part", func(t *testing.T) { t.Parallel(); allowedInPart(b.As(t)) })
	t.Run("compared", func(t *testing.T) { t.Parallel(); compared(b.As(t)) })
	t.Run("as deployed", func(t *testing.T) { t.Parallel(); asDeployed(b.As(t)) })
}

// A missing right is logged only after refusalGrace. With the growing retry interval the log line can take until
// refusalSaid.
const (
	refusalGrace = 20 * time.Second
	refusalSaid  = refusalGrace + 35*time.Second
)

var refusal = regexp.MustCompile(`level=error msg="API server \S+ refuses to (list|watch) (\S+): ` +
	`.*grant this account the verb (list|watch) on (\S+)"`)

// allowedInPart runs portald as a user without rights to EndpointSlices. The log names the missing right, but not
// within the grace period, and no other right. Once the right is granted, Services are served.
func allowedInPart(b *apibed.Bed) {
	s, o := b.Sites[1], newObjects(b, "in-part")
	to := o.service("cart", bed.PodPort, s.Net.Pod(0).IPv4)
	allow(b, "jane", "services", "nodes")
	began := time.Now()
	d := s.Launch(nil, b.Flags(s, "--kubeconfig="+b.API.Kubeconfig("jane"))...)
	time.Sleep(refusalGrace - time.Since(began) - time.Second)
	if refusal.MatchString(d.Log.String()) {
		b.Error("the missing right was logged within the grace period")
	}
	if !bed.Within(refusalSaid-time.Since(began), func() bool { return refusal.MatchString(d.Log.String()) }) {
		b.Fatalf("waited %v for the log to name the missing right", refusalSaid)
	}
	b.Logf("logged after %v", since(began))
	allow(b, "jane", "services", "nodes", "endpointslices")
	began = time.Now()
	served := func() bool { return apibed.Outcome(apibed.NoReplyTimeout, s.Client, "tcp", to) == "b0" }
	if !bed.Within(refusalSaid, served) {
		b.Errorf("not served %v after the right was granted", refusalSaid)
	}
	b.Logf("served %v after the right was granted", since(began))
	for _, said := range refusal.FindAllStringSubmatch(d.Log.String(), -1) {
		if verb, what := said[1], said[2]; what != "endpointslices.discovery.k8s.io" || said[3] != verb || said[4] != what {
			b.Errorf("unexpected log line %q", said[0])
		}
	}
	strikeOut(d.Log, refusal)
}

// strikeOut replaces expected error lines in the log, so that they do not fail the test.
func strikeOut(t *bed.Output, expected *regexp.Regexp) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	rest := expected.ReplaceAllString(t.Buf.String(), "(expected)")
	t.Buf.Reset()
	t.Buf.WriteString(rest)
}

// allow grants a user list and watch on these resources and no others. Updates create the objects if they are missing.
func allow(b *apibed.Bed, user string, resources ...string) {
	b.Helper()
	rbac, name := b.API.Admin.RbacV1(), metav1.ObjectMeta{Name: "portald-of-" + user}
	_, err := rbac.ClusterRoles().Update(b.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "discovery.k8s.io"}, Resources: resources, Verbs: []string{"list", "watch"}},
	}}, metav1.UpdateOptions{})
	b.Sites[0].Must(err)
	_, err = rbac.ClusterRoleBindings().Update(b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.UpdateOptions{})
	b.Sites[0].Must(err)
}

// The kustomizations in deploy, and the namespaces of their objects.
const (
	replaceFolder, replaceIn = "../../deploy/kustomize/replace", "kube-system"
	besideFolder, besideIn   = "../../deploy/kustomize/beside", "portald"
	windowsFolder            = "../../deploy/windows"
)

// asDeployed applies the manifests of deploy to the API server and runs portald accordingly: with their configuration,
// in-cluster access, ServiceAccount and capabilities.
func asDeployed(b *apibed.Bed) {
	b.API.Namespace(b, besideIn) // a dry run does not create the namespace that the other objects need
	for _, folder := range []string{replaceFolder, besideFolder, windowsFolder, windowsFolder + "/account"} {
		kubectl(b, "apply", "--dry-run=server", "--validate=strict", "-k", folder)
	}
	kubectl(b, "apply", "-k", replaceFolder)
	if can := kubectl(b, "auth", "can-i", "watch", "servicecidrs.networking.k8s.io", // in mode nftables
		"--as=system:serviceaccount:"+replaceIn+":portald"); strings.TrimSpace(can) != "yes" {
		b.Errorf("portald may watch ServiceCIDRs: %s", can)
	}
	inPod(b, kubectl(b, "create", "token", "portald", "--namespace="+replaceIn))

	s := b.Sites[0]
	d := s.Exec("env", "KUBERNETES_SERVICE_HOST="+b.API.Host.IPv4.String(), "KUBERNETES_SERVICE_PORT=6443",
		"setpriv", "--no-new-privs", "--bounding-set=-all,+net_admin", "--",
		bed.Portald, "--config="+filepath.Join(replaceFolder, "config.yaml"), "--hostname-override="+s.Name,
		"--on-exit=remove", "--connection-log="+s.RecordFile())
	d.WaitReady()
	o := newObjects(b, "deployed")
	to := o.service("cart", bed.PodPort, s.Net.Pod(0).IPv4)
	b.Answers(s.Client, "tcp", to, "a0")
	kubectl(b, "annotate", "service", "cart", "--namespace=deployed", "portald.io/idle-timeout=soon")
	event(b, "of the start", "default", func(e *eventsv1.Event) bool {
		return e.Reason == "Starting" && e.Regarding.Name == s.Name
	})
	event(b, "of the annotation", "deployed", func(e *eventsv1.Event) bool {
		return e.Reason == "InvalidSetting" && e.Regarding.Name == "cart" && strings.Contains(e.Note, "idle-timeout")
	})
	if code := d.Stop(); code != 0 {
		b.Errorf("portald ended with code %d", code)
	}
	if log := d.Log.String(); strings.Contains(log, "refuses") {
		b.Errorf("portald lacks rights:\n%s", log)
	}
	if rules := s.Rules(); strings.Contains(rules, "PORTALD") {
		b.Errorf("portald did not remove its rules:\n%s", rules)
	}
}

// kubectl runs kubectl for objects without a namespace, or with a namespace among the arguments.
func kubectl(b *apibed.Bed, args ...string) string {
	b.Helper()
	cmd := b.API.Kubectl(b.Context(), args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		b.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, errOut.String())
	}
	return out.String()
}

// inPod writes a token to the path that the kubelet uses, on the private file system of these tests.
func inPod(b *apibed.Bed, token string) {
	b.Helper()
	const folder = "/var/run/secrets/kubernetes.io/serviceaccount"
	ca, err := os.ReadFile(b.API.CA)
	b.Sites[0].Must(err)
	b.Sites[0].Must(os.MkdirAll(folder, 0o700))
	for name, content := range map[string]string{"token": token, "ca.crt": string(ca), "namespace": replaceIn} {
		b.Sites[0].Must(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
}

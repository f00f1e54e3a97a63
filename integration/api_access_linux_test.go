package integration

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

	"github.com/portald/portald/integration/topology"
)

// TestAPIAccess has portald run as somebody whose rights are what they are.
func TestAPIAccess(t *testing.T) {
	topology.Require(t, "setpriv")
	b := newAPIBed(t, 2, 1, "--user=jane")
	t.Run("in part", func(t *testing.T) { t.Parallel(); allowedInPart(b.as(t)) })
	t.Run("as deployed", func(t *testing.T) { t.Parallel(); asDeployed(b.as(t)) })
}

// How long a right may be missing before that is said, and how long all may take until it is: tries are far apart by then.
const (
	refusalGrace = 20 * time.Second
	refusalSaid  = refusalGrace + 35*time.Second
)

var refusal = regexp.MustCompile(`level=error msg="API server \S+ refuses to (list|watch) (\S+): ` +
	`.*grant this account the verb (list|watch) on (\S+)"`)

// allowedInPart is a user who may see all that a service proxy sees, but for EndpointSlices. What is missing is said, and
// nothing else, and not while it may come yet; once it has, Services are served.
func allowedInPart(b *apiBed) {
	s, o := b.sites[1], newObjects(b, "in-part")
	to := o.service("cart", podPort, s.net.Pod(0).IPv4)
	b.allow("jane", "services", "nodes")
	began := time.Now()
	d := s.launch(nil, b.flags(s, "--kubeconfig="+b.api.Kubeconfig("jane"))...)
	time.Sleep(refusalGrace - time.Since(began) - time.Second)
	if refusal.MatchString(d.log.String()) {
		b.Error("the right was missed before its time")
	}
	if !within(refusalSaid-time.Since(began), func() bool { return refusal.MatchString(d.log.String()) }) {
		b.Fatalf("waited %v for the missing right to be named", refusalSaid)
	}
	b.Logf("said after %v", since(began))
	b.allow("jane", "services", "nodes", "endpointslices")
	began = time.Now()
	if !within(refusalSaid, func() bool { return meets(apiSilence, s.client, "tcp", to) == "b0" }) {
		b.Errorf("not served %v after the right was granted", refusalSaid)
	}
	b.Logf("served %v after the right was granted", since(began))
	for _, said := range refusal.FindAllStringSubmatch(d.log.String(), -1) {
		if verb, what := said[1], said[2]; what != "endpointslices.discovery.k8s.io" || said[3] != verb || said[4] != what {
			b.Errorf("said %q", said[0])
		}
	}
	d.log.allow(refusal)
}

// allow strikes out what is said at the level of errors and expected.
func (t *text) allow(said *regexp.Regexp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := said.ReplaceAllString(t.buf.String(), "(expected)")
	t.buf.Reset()
	t.buf.WriteString(rest)
}

// allow lets a user list and watch these and no others. What there is not yet, the API server makes.
func (b *apiBed) allow(user string, resources ...string) {
	b.Helper()
	rbac, name := b.api.Admin.RbacV1(), metav1.ObjectMeta{Name: "portald-of-" + user}
	_, err := rbac.ClusterRoles().Update(b.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "discovery.k8s.io"}, Resources: resources, Verbs: []string{"list", "watch"}},
	}}, metav1.UpdateOptions{})
	b.sites[0].must(err)
	_, err = rbac.ClusterRoleBindings().Update(b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.UpdateOptions{})
	b.sites[0].must(err)
}

// deployed are the folders of deploy, and the namespaces that they put everything in.
const (
	replaceFolder, replaceIn = "../deploy/kustomize/replace", "kube-system"
	besideFolder, besideIn   = "../deploy/kustomize/beside", "portald"
)

// asDeployed has the API server take what deploy has, and portald run by that: with its configuration, in the way of a
// pod, as its ServiceAccount, and with its capabilities.
func asDeployed(b *apiBed) {
	b.api.Namespace(b, besideIn) // a dry run does not make it, and the rest would be refused for that
	for _, folder := range []string{replaceFolder, besideFolder} {
		b.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", folder)
	}
	b.kubectl("apply", "-k", replaceFolder)
	inPod(b, b.kubectl("create", "token", "portald", "--namespace="+replaceIn))

	s := b.sites[0]
	d := s.exec("env", "KUBERNETES_SERVICE_HOST="+b.api.Host.IPv4.String(), "KUBERNETES_SERVICE_PORT=6443",
		"setpriv", "--no-new-privs", "--bounding-set=-all,+net_admin", "--",
		portald, "--config="+filepath.Join(replaceFolder, "config.yaml"), "--hostname-override="+s.name, "--on-exit=remove")
	d.waitReady()
	o := newObjects(b, "deployed")
	to := o.service("cart", podPort, s.net.Pod(0).IPv4)
	b.answers(s.client, "tcp", to, "a0")
	b.kubectl("annotate", "service", "cart", "--namespace=deployed", "portald.io/idle-timeout=soon")
	b.event("of the start", "default", func(e *eventsv1.Event) bool {
		return e.Reason == "Starting" && e.Regarding.Name == s.name
	})
	b.event("of the annotation", "deployed", func(e *eventsv1.Event) bool {
		return e.Reason == "InvalidSetting" && e.Regarding.Name == "cart" && strings.Contains(e.Note, "idle-timeout")
	})
	if code := d.stop(); code != 0 {
		b.Errorf("portald ended with code %d", code)
	}
	if said := d.log.String(); strings.Contains(said, "refuses") {
		b.Errorf("it may not do all that it does:\n%s", said)
	}
	if rules := s.rules(); strings.Contains(rules, "PORTALD") {
		b.Errorf("it could not remove its rules:\n%s", rules)
	}
}

// kubectl is for what is in no namespace, or names its own.
func (b *apiBed) kubectl(args ...string) string {
	b.Helper()
	cmd := b.api.Kubectl(b.Context(), args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		b.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return out.String()
}

// inPod puts a token where the kubelet would, on the file system that these tests have for themselves.
func inPod(b *apiBed, token string) {
	b.Helper()
	const folder = "/var/run/secrets/kubernetes.io/serviceaccount"
	ca, err := os.ReadFile(b.api.CA)
	b.sites[0].must(err)
	b.sites[0].must(os.MkdirAll(folder, 0o700))
	for name, content := range map[string]string{"token": token, "ca.crt": string(ca), "namespace": replaceIn} {
		b.sites[0].must(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
}

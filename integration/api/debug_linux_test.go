package api

import (
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/proxy/adminsocket"
)

const debugUntil = "portald.io/debug-until"

// debugged checks that a Service that the kernel carries is debugged on both nodes by a command with the rights of
// deploy/access.yaml and no more, and is as before at its end; and if it is killed, once its time is over.
func debugged(b *apibed.Bed, n *cluster.Namespace) {
	s := n.Service("cart", corev1.ServiceSpec{Ports: apibed.Web()})
	n.ChangeService("cart", func(s *corev1.Service) { s.Annotations = map[string]string{"portald.io/mode": "kernel"} })
	b.AddPods(n, "cart", "a0", "b0")
	site, address := b.Sites[0], apibed.On80(s.Spec.ClusterIP)
	for _, site := range b.Sites[:2] {
		b.Answers(site.Client, "tcp", address, "a0", "b0")
		awaitMode(b, site, "kernel", "annotation")
	}
	debug := func(args ...string) *bed.Daemon {
		line := append(site.Line("debug", "debugged/cart", "--socket", site.D.Socket, "--kubeconfig",
			b.API.Kubeconfig(cluster.Proxy), "--yes"), args...)
		return site.Exec(line...)
	}

	d := debug()
	if <-d.Ended; d.Exit() == 0 || !strings.Contains(d.Log.String(), "services \"cart\" is forbidden") {
		b.Errorf("without the right to change the Service:\n%s", d.Log.String())
	}
	mayDebug(b, "debugged", cluster.Proxy)
	d = debug("--until-outcome", "ok", "--html", site.Dir+"/cart.html")
	said := func(d *bed.Daemon, text string) {
		b.Helper()
		b.Eventually("debug to say "+text, func() bool { return strings.Contains(d.Log.String(), text) })
	}
	said(d, "1 of 1 nodes carry it in userspace mode")
	awaitMode(b, b.Sites[1], "userspace", "debug")
	b.Answers(site.Client, "tcp", address, "a0", "b0")
	if <-d.Ended; d.Exit() != 0 {
		b.Errorf("debug ends with %d", d.Exit())
	}
	for _, part := range []string{"It ends: a connection had the outcome ok.", "debugged/cart:http tcp", "Endpoints\n",
		"carried by kernel, now by userspace (debugged until ", "(debugging was ended before its time)"} {
		if !strings.Contains(d.Log.String(), part) {
			b.Errorf("%q is not in\n%s", part, d.Log.String())
		}
	}
	b.Log(d.Log.String())
	annotations := func() map[string]string {
		return n.ChangeService("cart", func(*corev1.Service) {}).Annotations
	}
	if left := annotations(); left[debugUntil] != "" || left["portald.io/mode"] != "kernel" {
		b.Errorf("the Service has %v", left)
	}
	for _, site := range b.Sites[:2] {
		awaitMode(b, site, "kernel", "annotation")
	}

	d = debug("--for", "10s")
	said(d, "Records follow")
	d.Signal(syscall.SIGKILL)
	<-d.Ended
	until, err := time.Parse(time.RFC3339, annotations()[debugUntil])
	site.Must(err)
	for _, site := range b.Sites[:2] {
		awaitMode(b, site, "kernel", "annotation")
		b.Answers(site.Client, "tcp", address, "a0", "b0")
	}
	if time.Now().Before(until) {
		b.Error("it has expired too early")
	}
	if annotations()[debugUntil] == "" {
		b.Error("somebody has removed the annotation of a command that was killed")
	}
}

// awaitMode waits until a node carries the Service in a mode, and says why.
func awaitMode(b *apibed.Bed, site *apibed.Site, mode, from string) {
	b.Helper()
	b.Eventually(site.Name+" to carry the Service in mode "+mode, func() bool {
		all, err := site.D.Admin().Services(b.Context(), adminsocket.ServiceQuery{Services: []string{"debugged/cart:http"}})
		return err == nil && len(all) == 1 && all[0].Mode == mode && all[0].ModeFrom == from
	})
}

// mayDebug gives a user the rights of deploy/access.yaml in a namespace.
func mayDebug(b *apibed.Bed, namespace, user string) {
	b.Helper()
	rbac, name := b.API.Admin.RbacV1(), metav1.ObjectMeta{Name: "debug"}
	_, err := rbac.Roles(namespace).Create(b.Context(), &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "patch"},
	}}}, metav1.CreateOptions{})
	b.Sites[0].Must(err)
	_, err = rbac.RoleBindings(namespace).Create(b.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	b.Sites[0].Must(err)
}

package fleet

import (
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
)

// rights shows what the Roles of deploy/ allow, on a node whose pod has the real program.
func (f *fleet) rights() {
	const node = "node-real"
	program := filepath.Join(f.TempDir(), "portald")
	f.build(program, "portald")
	f.kubelets(realKubeletPort, "--portald", program)
	d := &daemon{node: node, records: connlog.NewStream(16), changes: changes.NewLog(10)}
	d.serve(f.T, f.sockets, "portald-"+node)
	f.node(node, realKubeletPort)

	stranger := f.as("stranger", "conns")
	if stranger.err == nil || !strings.Contains(stranger.errOut, `pods is forbidden: User "stranger" cannot list`) {
		f.Errorf("who may not list pods: %v\n%s", stranger.err, stranger.errOut)
	}
	apply := f.cluster.Kubectl(f.Context(), "apply", "--namespace", namespace, "--filename",
		"../../deploy/access.yaml")
	if out, err := apply.CombinedOutput(); err != nil {
		f.Fatalf("%v\n%s", err, out)
	}
	f.bind("lookers", "portald-viewer")
	f.bind("operators", "portald-operator")
	if a := f.as("looker", "conns", "--on-node", node, "--no-headers", patient); a.err != nil ||
		strings.Count(a.out, node) != connectionsOf {
		f.Errorf("a viewer looks: %v\n%s%s", a.err, a.out, a.errOut)
	}
	f.refused("looker", "cut", "7", "--on-node", node)
	f.refused("looker", "loglevel", "debug", "--on-node", node)
	a := f.as("operator", "cut", "7", "--on-node", node, patient)
	if a.err != nil || a.out != "Cut 1 connection on "+node+"\n" {
		f.Errorf("an operator cuts: %v\n%s%s", a.err, a.out, a.errOut)
	}
	if a := f.as("looker", "explain", "shop/cart", "--on-node", node, patient); a.err != nil {
		f.Errorf("a viewer asks for an explanation: %v\n%s", a.err, a.errOut)
	}
	if a := f.as("looker", "doctor", "--on-node", node, "-o", "json"); !strings.Contains(a.out, `"node": "node-real"`) ||
		!strings.Contains(a.out, `"findings": [`) {
		f.Errorf("a viewer asks doctor: %v\n%s%s", a.err, a.out, a.errOut)
	}
	f.refused("looker", "report", "--on-node", node, "-o", filepath.Join(f.TempDir(), "refused.tar"))
	f.report(node)
}

// report has the operator collect the report of a node.
func (f *fleet) report(node string) {
	name := filepath.Join(f.TempDir(), "report.tar")
	a := f.as("operator", "report", "--on-node", node, "-o", name)
	if a.err != nil || a.out != name+": the reports of 1 of 1 nodes, each an archive.\n" {
		f.Fatalf("%v\n%s%s", a.err, a.out, a.errOut)
	}
	list, err := exec.Command("sh", "-c", `tar xOf "$0" "$1".tar.gz | tar tz`, name, node).CombinedOutput()
	f.must(err)
	if !strings.Contains(string(list), "/README.txt\n") {
		f.Errorf("the report has:\n%s", list)
	}
}

// bind gives a group a Role.
func (f *fleet) bind(group, role string) {
	f.Helper()
	_, err := f.cluster.Admin.RbacV1().RoleBindings(namespace).Create(f.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: group}},
	}, metav1.CreateOptions{})
	f.must(err)
}

// refused wants the policy to refuse a command, which it does some time after it was created.
func (f *fleet) refused(user string, args ...string) {
	f.Helper()
	const text = "the Role portald-operator has it"
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		a := f.as(user, append(args, patient)...)
		if a.err != nil && strings.Contains(a.errOut, text) {
			return
		}
		if time.Now().After(end) {
			f.Fatalf("%s: %v, want that it is refused\n%s%s", strings.Join(args, " "), a.err, a.out, a.errOut)
		}
	}
}

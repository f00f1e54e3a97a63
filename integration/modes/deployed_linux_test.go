package modes

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/platform/netnstest"
)

// A node in each mode as the manifests of deploy/ have it: the init container, then the daemon's, each with exactly the
// rights that they say, as a container runtime gives them.
func TestDeployed(t *testing.T) {
	for _, m := range deployedModes() {
		t.Run(m.mode, func(t *testing.T) { deployed(bed.New(t, "setpriv", "unshare"), m) })
	}
}

// deployedMode is a mode with the parts of deploy/kustomize that it needs.
type deployedMode struct {
	mode       string
	settings   string // more lines of kube-proxy's configuration
	components []string
	sysctls    []string // that the writer needs, and only the init container may write
}

func deployedModes() []deployedMode {
	if bed.InVM {
		return []deployedMode{{mode: "ipvs", components: []string{"ipvs"}, sysctls: []string{"net/ipv4/vs/conntrack"}}}
	}
	return []deployedMode{{mode: "userspace"}, {mode: "iptables"}, {mode: "nftables",
		settings: `nodePortAddresses: ["0.0.0.0/0", "::/0"]`}}
}

// tableOfHost leaves the size of the kernel's conntrack table alone: only the host's own network namespace may set it.
const tableOfHost = "conntrack: {maxPerCore: 0}\n"

func deployed(b *bed.Bed, m deployedMode) {
	p := readPod(b, renderDeploy(b, "replace", m.components...), "mode: "+m.mode+"\n"+tableOfHost+m.settings)
	b.ServePods(0)
	services := b.WriteManifest(bed.Manifest, deployedServices(b))
	main := p.containers[len(p.containers)-1]
	start := func() *bed.Daemon {
		b.Helper()
		return b.Launch(main.wrapper(b), append(p.args(main), "--manifests="+services)...)
	}
	for _, name := range m.sysctls {
		if got := readSysctl(b, name); got != "0" {
			b.Fatalf("%s is %q on a new node", name, got)
		}
		d := start()
		d.ExpectErrors = true
		dotted := strings.ReplaceAll(name, "/", ".")
		b.Eventually("portald to say what sysctl is wrong", func() bool {
			return strings.Contains(d.Log.String(), fmt.Sprintf("set %s to 1, which is 0: read-only file system", dotted)) &&
				strings.Contains(d.Log.String(), "or have an init container with all rights run portald --init-only")
		})
		d.Stop()
	}
	for _, c := range p.containers[:len(p.containers)-1] {
		init := b.Exec(append(c.wrapper(b), b.Line(p.args(c)...)...)...)
		if code := init.Exit(); code != 0 {
			b.Fatalf("the init container %s ended with code %d: %s", c.Name, code, init.Log)
		}
	}
	for _, name := range m.sysctls {
		if got := readSysctl(b, name); got != "1" {
			b.Errorf("%s is %q after the init container", name, got)
		}
	}
	for range 2 { // a start, and a restart
		d := start()
		d.WaitReady()
		checkDeployed(b)
		if code := d.Stop(); code != 0 {
			b.Errorf("portald ended with code %d", code)
		}
		for _, bad := range []string{"level=error", "read-only", "not permitted", "denied"} {
			if log := d.Log.String(); strings.Contains(log, bad) {
				b.Errorf("it lacks a right (%q):\n%s", bad, log)
			}
		}
	}
}

// deployedServices is cart, and a load balancer that the second client alone may use: with IPVS that takes ipsets.
func deployedServices(b *bed.Bed) string {
	cart, fenced := b.Cart(0), b.Simple("fenced", "10.96.0.22", 0)
	fenced.Kind, fenced.Balancer = "LoadBalancer", []string{fencedBalancer}
	ranges := fmt.Sprintf("spec:\n  loadBalancerSourceRanges: [%q]\n", netip.PrefixFrom(b.Net.Client(1).IPv4, 32))
	return cart.String() + strings.Replace(fenced.String(), "spec:\n", ranges, 1)
}

func checkDeployed(b *bed.Bed) {
	b.Helper()
	for _, to := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80),
		bed.HostPort(b.Node.IPv4.String(), bed.NodePort)} {
		for _, network := range []string{"tcp", "udp"} {
			if a, err := bed.Ask(b.Client, network, to); err != nil || a.Pod != "pod0" {
				b.Errorf("%s %s: %v, %v", network, to, a, err)
			}
		}
	}
	to := bed.HostPort(fencedBalancer, 80)
	if a, err := bed.Ask(b.Net.Client(1), "tcp", to); err != nil || a.Pod != "pod0" {
		b.Errorf("a client in the source ranges: %v, %v", a, err)
	}
	if a, err := bed.AskWithin(300*time.Millisecond, b.Client, "tcp", to); err == nil {
		b.Errorf("a client outside the source ranges: answered by %s", a.Pod)
	}
}

func readSysctl(b *bed.Bed, name string) string {
	b.Helper()
	return strings.TrimSpace(b.On(b.Node, "cat", "/proc/sys/"+name))
}

// guestDeploy has the output of renderDeploy, for the virtual machine, which has no kubectl.
const guestDeploy = "testdata/guest/deploy"

// renderDeploy returns the manifests of a role of deploy/ with components.
func renderDeploy(b *bed.Bed, role string, components ...string) string {
	b.Helper()
	if bed.InVM {
		text, err := os.ReadFile(filepath.Join(guestDeploy, strings.Join(append([]string{role}, components...), "-")+".yaml"))
		b.Must(err)
		return string(text)
	}
	kubetest := os.Getenv("KUBETEST")
	switch {
	case kubetest != "":
	case netnstest.Elsewhere("api"):
		b.Skip("runs by make test-api")
	default:
		topology.Lack(b, "KUBETEST names no binary (make kubetest): it is kubectl too")
	}
	b.Must(os.Symlink(kubetest, filepath.Join(b.Dir, "kubectl")))
	cmd := exec.Command("../../deploy/render", append([]string{role}, components...)...)
	cmd.Env = append(os.Environ(), "PATH="+b.Dir+":"+os.Getenv("PATH"))
	text, err := cmd.Output()
	if err != nil {
		b.Fatalf("render %s: %v", role, err)
	}
	return string(text)
}

// pod is the containers of the DaemonSet, init containers first, and where its files are in place of their mounts.
type pod struct {
	containers []container
	files      *strings.Replacer
}

type container struct{ corev1.Container }

// readPod reads manifests, and writes the files of the ConfigMap, to the configuration of which it adds lines.
func readPod(b *bed.Bed, manifests, settings string) *pod {
	b.Helper()
	var set appsv1.DaemonSet
	var config corev1.ConfigMap
	for _, document := range strings.Split(manifests, "\n---\n") {
		for kind, into := range map[string]any{"DaemonSet": &set, "ConfigMap": &config} {
			if strings.Contains("\n"+document, "\nkind: "+kind+"\n") {
				b.Must(yaml.UnmarshalStrict([]byte(document), into))
			}
		}
	}
	spec := set.Spec.Template.Spec
	folder := filepath.Join(b.Dir, "config")
	for name, text := range config.Data {
		text = strings.Replace(text, "mode: userspace\n", "", 1)
		text = strings.Replace(text, "kind: KubeProxyConfiguration\n", "kind: KubeProxyConfiguration\n"+settings+"\n", 1)
		b.WriteFile(filepath.Join(folder, name), text)
	}
	p := &pod{}
	replace := []string{"$(NODE_NAME)", "here"}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		p.containers = append(p.containers, container{c})
		for _, mount := range c.VolumeMounts {
			if mount.Name == "config" {
				replace = append(replace, mount.MountPath+"/", folder+"/")
			}
		}
	}
	if len(spec.Containers) != 1 || len(spec.InitContainers) != 1 || len(config.Data) == 0 || !spec.HostNetwork {
		b.Fatalf("other manifests than this test knows:\n%s", manifests)
	}
	p.files = strings.NewReplacer(replace...)
	return p
}

func (p *pod) args(c container) (out []string) {
	for _, arg := range c.Args {
		out = append(out, p.files.Replace(arg))
	}
	return out
}

// Mounts as container runtimes make them for a container. This test has its files in /tmp.
const (
	readOnlyRoot = "mount --bind /tmp /tmp; mount -o remount,bind,ro /\n"
	unprivileged = "for at in /proc/sys /sys; do mount --bind $at $at; mount -o remount,bind,ro $at; done\n"
)

// wrapper is a command that runs another one with the rights of a container.
func (c container) wrapper(b *bed.Bed) []string {
	b.Helper()
	s := c.SecurityContext
	script, rights := "set -e\n", []string(nil)
	if s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem {
		script += readOnlyRoot
	}
	if s.Privileged == nil || !*s.Privileged {
		script += unprivileged
		if s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			b.Fatalf("container %s keeps capabilities: %v", c.Name, s.Capabilities)
		}
		set := "-all"
		for _, has := range s.Capabilities.Add {
			set += ",+" + strings.ToLower(string(has))
		}
		rights = []string{"setpriv", "--bounding-set=" + set, "--inh-caps=" + set}
		if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
			rights = append(rights, "--no-new-privs")
		}
		rights = append(rights, "--")
	}
	// busybox's sh would run its own setpriv
	return append([]string{"unshare", "--mount", "bash", "-c", script + `exec "$@"`, "bash"}, rights...)
}

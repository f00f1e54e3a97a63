package daemon

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

func TestManifestsAreFollowed(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	file, folder := filepath.Join(b.Dir, "one.yaml"), filepath.Join(b.Dir, "folder")
	b.WriteFile(file, b.Simple("one", "10.96.1.1", 0))
	b.Must(os.Mkdir(folder, 0o700))
	b.StartWith("--manifests", file, "--manifests", folder)
	b.ServedBy("10.96.1.1", "pod0")

	b.WriteFile(file, b.Simple("one", "10.96.1.1", 1))
	b.ServedBy("10.96.1.1", "pod1")
	b.WriteManifest("one.yaml", b.Simple("one", "10.96.1.1", 0))
	b.ServedBy("10.96.1.1", "pod0")
	b.WriteManifest("one.yaml", b.Simple("one", "10.96.1.1", 1))
	b.ServedBy("10.96.1.1", "pod1")

	inFolder := filepath.Join(folder, "two.yaml")
	b.WriteFile(inFolder, b.Simple("two", "10.96.1.2", 0))
	b.ServedBy("10.96.1.2", "pod0")
	b.WriteFile(filepath.Join(folder, "three.json"), `{"apiVersion": "v1", "kind": "List", "items": [
		{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "three", "namespace": "shop"},
			"spec": {"clusterIP": "10.96.1.3", "ports": [{"port": 80}]}},
		{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"metadata": {"name": "three-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "three"}},
			"ports": [{"port": 8080}], "endpoints": [{"addresses": ["`+b.Net.Pod(1).IPv4.String()+`"]}]}]}`)
	b.ServedBy("10.96.1.3", "pod1")
	b.Must(os.Rename(inFolder, filepath.Join(folder, "renamed.yaml")))
	b.WriteFile(inFolder+".bak", b.Simple("ignored", "10.96.1.4", 0))
	b.Must(os.Remove(filepath.Join(folder, "three.json")))
	b.ServedBy("10.96.1.3", "")
	b.ServedBy("10.96.1.2", "pod0")
	b.Must(os.Remove(filepath.Join(folder, "renamed.yaml")))
	b.ServedBy("10.96.1.2", "")
	b.ServedBy("10.96.1.4", "")
	b.ServedBy("10.96.1.1", "pod1")
}

// The kubelet mounts a ConfigMap as symlinks into a directory that it replaces atomically.
func TestMountedConfigMap(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	mount := filepath.Join(b.Dir, "mount")
	version := func(n, pod int) {
		t.Helper()
		b.WriteFile(filepath.Join(mount, fmt.Sprintf("..v%d", n), "cart.yaml"), b.Simple("cart", bed.IP4, pod))
		b.Must(os.Symlink(fmt.Sprintf("..v%d", n), filepath.Join(mount, "..data_tmp")))
		b.Must(os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")))
	}
	version(1, 0)
	b.Must(os.Symlink("..data/cart.yaml", filepath.Join(mount, "cart.yaml")))
	b.StartWith("--manifests", mount)
	for n := 2; n < 5; n++ {
		b.ServedBy(bed.IP4, bed.PodName(n%2))
		version(n, (n+1)%2)
		b.Must(os.RemoveAll(filepath.Join(mount, fmt.Sprintf("..v%d", n-1))))
	}
	b.ServedBy(bed.IP4, "pod1")
}

// An invalid document is logged with file, document and field. Its previous version stays in effect, and the other
// documents are applied.
func TestBrokenDocument(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	good, other := b.Simple("good", "10.96.1.1", 0), b.Simple("other", "10.96.1.2", 0)
	d := b.Start(good.String() + other.String())
	b.ServedBy("10.96.1.1", "pod0")
	broken := strings.Replace(good.Service(), "port: 80,", "port: eighty,", 1) + good.Slice("IPv4", bed.Endpoint.Addr4)
	d.Apply(broken + b.Simple("other", "10.96.1.2", 1).String())
	b.ServedBy("10.96.1.2", "pod1")
	b.ServedBy("10.96.1.1", "pod0")
	for _, want := range []string{bed.Manifest + ": document 1 (line 2)", "service shop/good: spec.ports.port: "} {
		if !strings.Contains(d.Log.String(), want) {
			t.Errorf("the log does not contain %q", want)
		}
	}
	d.Apply("---\n}{ this is no YAML\n" + b.Simple("other", "10.96.1.2", 0).String())
	b.ServedBy("10.96.1.2", "pod0")
	b.ServedBy("10.96.1.1", "pod0")
	if code, _, err := d.Get("127.0.0.1:10256", "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz returns %d, %v", code, err)
	}
	d.Apply(b.Simple("other", "10.96.1.2", 0))
	b.ServedBy("10.96.1.1", "")
}

func TestManifestsFromStandardInput(t *testing.T) {
	b := bed.New(t, "sh")
	b.ServePods(0)
	path := b.WriteManifest(bed.Manifest, b.Simple("cart", bed.IP4, 0))
	b.Launch([]string{"sh", "-c", `f=$1; shift; exec "$@" < "$f"`, "sh", path}, "--manifests=-")
	b.ServedBy(bed.IP4, "pod0")
}

// A manifest that does not exist at the start is an error.
func TestManifestIsMissing(t *testing.T) {
	b := bed.New(t)
	before := b.Rules()
	d := b.Launch(nil, "--manifests", filepath.Join(b.Dir, "none.yaml"))
	if code := d.Exit(); code != 1 || !strings.Contains(d.Log.String(), "none.yaml") {
		t.Errorf("exit code %d, want 1 and an error that names the file:\n%s", code, d.Log)
	}
	if b.Rules() != before {
		t.Error("portald left rules behind")
	}
}

// clusterPortals lists the portals of a dump of a real cluster, each with its iptables table: portals in nat redirect
// to portald, portals in filter reject. Portals in both serve only clients inside the cluster, because their policy is
// Local and this node has no endpoint.
var clusterPortals = []string{
	`nat 10.96.0.1/32 tcp 443 default/kubernetes:https ClusterIP`,
	`filter 10.96.0.10/32 udp 53 kube-system/kube-dns:dns ClusterIP`,
	`filter 10.96.0.10/32 tcp 53 kube-system/kube-dns:dns-tcp ClusterIP`,
	`nat 10.96.89.128/32 tcp 80 shop/cart:http ClusterIP`,
	`nat 10.96.89.128/32 udp 53 shop/cart:dns ClusterIP`,
	`nat 10.96.44.145/32 tcp 80 shop/cart-external ClusterIP`,
	`nat 203.0.113.10/32 tcp 80 shop/cart-external ExternalIP`,
	`nat 10.96.149.23/32 tcp 443 shop/cart-lb ClusterIP`,
	`nat 198.51.100.100/32 tcp 443 shop/cart-lb LoadBalancerIP`,
	`filter 198.51.100.100/32 tcp 443 shop/cart-lb LoadBalancerIP`,
	`nat - tcp 31626 shop/cart-lb NodePort`,
	`filter - tcp 31626 shop/cart-lb NodePort`,
	`nat 10.96.21.39/32 tcp 80 shop/cart-node:http ClusterIP`,
	`nat 10.96.21.39/32 udp 80 shop/cart-node:udp ClusterIP`,
	`nat - tcp 30080 shop/cart-node:http NodePort`,
	`filter - tcp 30080 shop/cart-node:http NodePort`,
	`nat - udp 30080 shop/cart-node:udp NodePort`,
	`filter - udp 30080 shop/cart-node:udp NodePort`,
	`nat 10.96.194.239/32 tcp 80 shop/cart-sticky ClusterIP`,
	`filter 10.96.171.194/32 tcp 80 shop/nobody ClusterIP`,
	`filter 10.96.91.171/32 tcp 80 shop/slow ClusterIP`,
	`filter 10.96.103.22/32 tcp 80 shop/slow-published ClusterIP`,
	`nat 10.96.83.144/32 tcp 80 shop/spread ClusterIP`,
}

func TestClusterDumpIsServedWhole(t *testing.T) {
	b := bed.New(t)
	d := b.StartWith("--manifests", "../../proxy/kube/manifests/testdata/cluster.yaml", "--external-ip-cidrs",
		"203.0.113.0/24")
	got := map[string]bool{}
	for _, table := range []string{"nat", "filter"} {
		for line := range strings.Lines(b.On(b.Node, "iptables-save", "-t", table)) {
			if _, comment, ok := strings.Cut(line, `--comment "`); ok {
				got[portalOf(table, line, comment)] = true
			}
		}
	}
	for _, want := range clusterPortals {
		if !got[want] {
			t.Errorf("no portal %s", want)
		}
		delete(got, want)
	}
	if len(got) > 0 {
		t.Errorf("unexpected portals: %v", got)
	}
	if strings.Contains(d.Log.String(), "level=warning") {
		t.Error("a valid dump caused warnings")
	}
}

// portalOf returns a rule in the format of clusterPortals.
func portalOf(table, line, comment string) string {
	after := func(flag string) string {
		_, rest, found := strings.Cut(line, " "+flag+" ")
		if !found {
			return "-"
		}
		word, _, _ := strings.Cut(rest, " ")
		return word
	}
	comment, _, _ = strings.Cut(comment, `"`)
	return strings.Join([]string{table, after("-d"), after("-p"), after("--dport"), comment}, " ")
}

// Who tries portald on one machine writes the loopback address as an endpoint, which Kubernetes would not have taken.
func TestLoopbackEndpoint(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	one, two := b.Simple("one", "10.96.1.1", 0), b.Simple("two", "10.96.1.2", 0)
	one.Pods[0].V4 = bed.Parse("127.0.0.1")
	two.Ports = append(two.Ports, bed.NewPort("sig", "SCTP", 5060, 0, 5060)) // which userspace mode refuses
	d := b.Launch(nil, "--manifests", b.WriteManifest(bed.Manifest, one.String()+two.String()))
	d.ExpectErrors = true // of SCTP
	d.WaitReady()
	b.ServedBy("10.96.1.2", "pod0")
	log := d.Log.String()
	for _, want := range []string{
		`endpointslice shop/one-ipv4: endpoints[0].addresses[0]: \"127.0.0.1\": is a loopback address; portald refuses`,
		"write the address of the pod, or for a server on this host an address of its network interface",
		"Ready: service ports are served, but not as configured for some Services", `services="shop/one, shop/two"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not have %s", want)
		}
	}
	if t.Failed() || strings.Contains(log, "Ready: all") {
		t.Errorf("the log:\n%s", log)
	}
}

//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/integration/topology"
)

const thisNode = "node" // name of the node on which portald runs

// Addresses of portald's health and metrics servers, on the node.
const (
	healthAt  = "127.0.0.1:10256"
	metricsAt = "127.0.0.1:10249"
)

const userspace = "" // mode of a portald whose listeners forward all Services

// portaldIn is portald in a mode.
func portaldIn(mode string) competitor {
	c := competitor{name: "portald", label: "portald", program: "portald", mode: mode, udp: mode == userspace,
		start: startPortald}
	if mode != userspace {
		c.name, c.label = c.name+"-"+mode, mode+" mode"
	}
	return c
}

// on is the same competitor with the given engine.
func (c competitor) on(engine string) competitor {
	c.name, c.label, c.engine = c.name+"-"+engine, c.label+", "+engine+" engine", engine
	return c
}

// withoutRecords is portald without a connection log, to tell what one costs.
func withoutRecords() competitor {
	c := portaldIn(userspace)
	c.name, c.label, c.unrecorded = c.name+"-unrecorded", c.label+", no records", true
	return c
}

// withKeeper is portald with portald keep beside it, to tell what that costs.
func withKeeper() competitor {
	c := portaldIn(userspace)
	c.name, c.label, c.kept = c.name+"-kept", c.label+", kept", true
	return c
}

// withRetries is portald with every setting of docs/retries.md that each connection takes part in, to tell what they
// cost while nothing fails.
func withRetries() competitor {
	c := portaldIn(userspace)
	c.name, c.label, c.retries = c.name+"-retries", c.label+", retries", true
	return c
}

// retrySettings are those, with limits that no client reaches.
func retrySettings() []string {
	return []string{"--retry-on", "reset-before-response", "--hedge-after", "50ms", "--wait-for-endpoint", "30s",
		"--max-age", "1h±20%", "--removed-endpoint", "close-when-idle", "--dead-peer-timeout", "1m",
		"--max-connections-per-client", "1000000", "--connection-rate", "1000000", "--connection-rate-per-client", "1000000"}
}

// recordingFlows is portald in a kernel mode that makes records of the connections that the kernel carried.
func recordingFlows(which string) competitor {
	c := portaldIn("nftables")
	c.name, c.label, c.flowRecords = c.name+"-records-"+which, c.label+", records "+which, which
	return c
}

// at is another portald binary in the same mode.
func (c competitor) at(path string) competitor {
	c.name, c.label, c.path = c.name+"-before", c.label+", before", path
	return c
}

// with is the same competitor with additional Services, at random addresses of the service range.
func (c competitor) with(services int) competitor {
	c.name, c.label = fmt.Sprint(c.name, "-", services), fmt.Sprintf("%s, %d Services", c.label, services)
	c.services = services
	return c
}

func startPortald(b *bed) ([]string, error) {
	if err := b.manifests(b.services); err != nil {
		return nil, err
	}
	args := slices.Concat(asDeployed(), b.beside(), []string{b.portald()}, b.what())
	if b.engine == "" {
		return args, nil
	}
	config := "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\nengine: " + b.engine + "\n"
	file, err := b.file("config.yaml", config)
	return append(args, "--config", file), err
}

// beside starts a keeper, if there is to be one, which ends with the program whose command line follows.
func (b *bed) beside() []string {
	if !b.kept {
		return nil
	}
	const both = `setpriv --pdeathsig KILL "$0" keep --socket "$1" & shift; sleep 0.5; exec "$@"`
	return []string{"sh", "-c", both, b.portald(), filepath.Join(b.dir, "admin-keep.sock")}
}

// portald is the path of the program.
func (b *bed) portald() string {
	if b.path != "" {
		return b.path
	}
	return b.lab.portald
}

// asDeployed starts a program with exactly the capabilities that deploy/ grants. Without CAP_SYS_RESOURCE, for example,
// the kernel limits the total pipe memory of all processes of root.
func asDeployed() []string {
	return []string{"setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin", "--no-new-privs"}
}

// what returns portald's flags.
func (b *bed) what() []string {
	args := []string{"--hostname-override", thisNode, "--healthz-bind-address", healthAt,
		"--metrics-bind-address", metricsAt, "--manifests", b.manifest(""),
		"--admin-socket", b.adminSocket()}
	if b.mode == userspace { // a measurement of a kernel mode needs the rules that stay
		args = append(args, "--on-exit", "remove")
	}
	if b.retries {
		args = append(args, retrySettings()...)
	}
	if b.unrecorded {
		return args
	}
	if b.mode == userspace {
		return append(args, "--connection-log", b.connectionLog(), "--connection-log-format", "json")
	}
	if b.mode == "iptables" {
		args = append(args, "--iptables-variant", "nft")
	}
	if b.flowRecords != "" {
		args = append(args, "--kernel-records", b.flowRecords)
	}
	return append(args, "--proxy-mode", b.mode, "--profiling")
}

func (b *bed) adminSocket() string { return filepath.Join(b.dir, "admin.sock") }

func (b *bed) connectionLog() string { return filepath.Join(b.dir, "connections.json") }

// manifest is the path of a file in the directory that portald watches.
func (b *bed) manifest(name string) string { return filepath.Join(b.dir, "manifests", name) }

// targets is a file with the addresses of the additional Services, one per line.
func (b *bed) targets() string { return filepath.Join(b.dir, "targets") }

func (b *bed) manifests(services int) error {
	if err := os.MkdirAll(b.manifest(""), 0o755); err != nil {
		return err
	}
	var all, targets strings.Builder
	ports := []port{{"echo", "TCP", echoPort}, {"echo-udp", "UDP", echoPort}, {"bulk", "TCP", bulkPort}}
	object(&all, "measured", netip.MustParseAddr(vip), ports, b.endpoints(measured, 0))
	for i, a := range drawn(services) {
		object(&all, fmt.Sprint("further-", i), a, ports[:1], b.endpoints(further+i, 0))
		fmt.Fprintln(&targets, netip.AddrPortFrom(a, echoPort))
	}
	if err := os.WriteFile(b.targets(), []byte(targets.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(b.manifest("services.json"), []byte(all.String()), 0o644)
}

// port is a service port with the same number in the pod.
type port struct {
	name, proto string
	number      int
}

// endpoint is the address and node of a pod.
type endpoint struct {
	at   netip.Addr
	node string
}

// object writes a Service and its EndpointSlice as JSON: parsing YAML would dominate the start.
func object(w *strings.Builder, name string, vip netip.Addr, ports []port, endpoints []endpoint) {
	fmt.Fprintf(w, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "%[1]s", "namespace": "bench"},
 "spec": {"type": "ClusterIP", "clusterIP": "%[2]s", "clusterIPs": ["%[2]s"], "ports": [%[3]s]}}
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
 "metadata": {"name": "%[1]s-1", "namespace": "bench", "labels": {"kubernetes.io/service-name": "%[1]s"}},
 "ports": [%[4]s], "endpoints": [%[5]s]}
`, name, vip,
		listed(ports, func(p port) string {
			const text = `{"name": "%s", "protocol": "%s", "port": %d, "targetPort": %[3]d}`
			return fmt.Sprintf(text, p.name, p.proto, p.number)
		}),
		listed(ports, func(p port) string {
			return fmt.Sprintf(`{"name": "%s", "protocol": "%s", "port": %d}`, p.name, p.proto, p.number)
		}),
		listed(endpoints, func(e endpoint) string {
			const conditions = `"conditions": {"ready": true, "serving": true, "terminating": false}`
			return fmt.Sprintf(`{"addresses": ["%s"], "nodeName": "%s", %s}`, e.at, e.node, conditions)
		}))
}

// listed joins the elements of a JSON list.
func listed[T any](all []T, text func(T) string) string {
	var out []string
	for _, one := range all {
		out = append(out, text(one))
	}
	return strings.Join(out, ", ")
}

// drawn returns n different random addresses of the service range, the same ones in every run.
func drawn(n int) []netip.Addr {
	taken := map[netip.Addr]bool{netip.MustParseAddr(vip): true, netip.MustParseAddr(changingVIP): true}
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]netip.Addr, 0, n)
	base := netip.MustParsePrefix(topology.ClusterIPs4).Addr().As4()
	for len(all) < n {
		k := random.Uint32N(1 << 20)
		a := netip.AddrFrom4([4]byte{base[0], base[1] | byte(k>>16), byte(k >> 8), byte(k)})
		if !taken[a] {
			taken[a] = true
			all = append(all, a)
		}
	}
	return all
}

// get sends a GET request to portald on the node.
func (b *bed) get(ctx context.Context, url string) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return b.net.Node.Dial(ctx, network, addr)
		}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// healthy waits until portald has applied all manifests and is healthy.
func (b *bed) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for began := time.Now(); ; time.Sleep(max(2*time.Millisecond, time.Since(began)/100)) { // polling takes CPU time too
		r, err := b.get(ctx, "http://"+healthAt+"/healthz")
		if err == nil {
			r.Body.Close()
		}
		if err == nil && r.StatusCode == http.StatusOK {
			return nil
		}
		if err := errors.Join(ctx.Err(), b.ended()); err != nil {
			return fmt.Errorf("wait for portald to be healthy: %w", err)
		}
	}
}

// duration reads the sum and the count of a histogram of syncs. A sync covers both families and is counted in the
// histogram of each, so one is enough.
func (b *bed) duration(ctx context.Context, name string) (time.Duration, int, error) {
	const family = `{ip_family="IPv4"}`
	seconds, err := b.metric(ctx, name+"_sum"+family)
	if err != nil {
		return 0, 0, err
	}
	count, err := b.metric(ctx, name+"_count"+family)
	return time.Duration(seconds * float64(time.Second)), int(count), err
}

// metric is the value of a metric of portald; without labels the sum over all series; 0 if it is absent.
func (b *bed) metric(ctx context.Context, name string) (sum float64, err error) {
	r, err := b.get(ctx, "http://"+metricsAt+"/metrics")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	in := bufio.NewScanner(r.Body)
	for in.Scan() {
		metric, value, _ := strings.Cut(in.Text(), " ")
		plain, _, _ := strings.Cut(metric, "{")
		if metric != name && plain != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += v
	}
	return sum, in.Err()
}

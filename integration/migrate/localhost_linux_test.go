package migrate

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/platform/netnstest"
)

// localhost is what a node gets of its own NodePorts and what others get, by kube-proxy and by portald.
const localhost = "testdata/localhost.txt"

// byGate is the gate by which kube-proxy serves NodePorts at loopback addresses in nftables mode.
const byGate = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true"

// kube-proxy and portald in nftables mode get the same nodePortAddresses, and answer as the table says.
// UPDATE_GOLDEN=1 writes it.
func TestLocalhostNodePorts(t *testing.T) {
	if os.Getenv("KUBETEST") == "" {
		netnstest.Missing(t, "needs a kube-proxy (make kubetest)")
	}
	b := bed.New(t, "nft")
	b.ServePods(0, 1)
	kubeconfig := serveAPI(b, objects(b))
	text := new(strings.Builder)
	fmt.Fprint(text, "# NodePorts by kube-proxy with the gate KubeProxyNFTablesLocalhostNodePorts, and by portald, both "+
		"in\n# nftables mode: what this node gets at loopback addresses, another host at the node's, and their count of\n"+
		"# listeners. Made by UPDATE_GOLDEN=1 go test -run TestLocalhostNodePorts ./integration/migrate\n")
	for _, form := range []string{
		"", "primary", "localhost", "all", "primary,localhost", "localhost,192.168.0.0/16", "127.0.0.0/8", "::1/128",
		"0.0.0.0/0,::/0", "127.0.0.0/8,0.0.0.0/0",
	} {
		flags := []string{"--kubeconfig=" + kubeconfig, "--hostname-override=a", bed.PodRanges, "--proxy-mode=nftables"}
		if form != "" {
			flags = append(flags, "--nodeport-addresses="+form)
		}
		theirs := slices.Concat(kubeProxyProgram(), flags, []string{byGate, "--conntrack-max-per-core=0"})
		both := [][]string{nil, nil}
		proxy := &kubeProxy{b: b, program: kubeProxyProgram()}
		proxy.runs = b.Exec(theirs...)
		both[0] = settled(b)
		proxy.stop()
		proxy.cleanUp()
		d := b.Launch(nil, append(flags, "--on-exit=remove")...)
		d.WaitReady()
		both[1] = settled(b)
		d.Stop()
		fmt.Fprintf(text, "\nnodePortAddresses: [%s]\n", strings.ReplaceAll(form, ",", ", "))
		for i, is := range both[0] {
			what, kubeProxy, _ := bed.CutLast(is, ": ")
			_, portald, _ := bed.CutLast(both[1][i], ": ")
			if kubeProxy == portald {
				fmt.Fprintf(text, "  %s: %s\n", what, portald)
			} else {
				fmt.Fprintf(text, "  %s: %s, by portald %s\n", what, kubeProxy, portald)
			}
		}
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		b.Must(os.MkdirAll(filepath.Dir(localhost), 0o755))
		b.Must(os.WriteFile(localhost, []byte(text.String()), 0o644))
	}
	want, err := os.ReadFile(localhost)
	b.Must(err)
	if text.String() != string(want) {
		t.Errorf("%s says otherwise; both answer as\n%s", localhost, text)
	}
}

// settled waits until the node's proxy serves ClusterIPs and answers three times in a row alike, and returns how.
func settled(b *bed.Bed) (out []string) {
	b.Helper()
	b.Eventually("the proxy to serve", func() bool {
		return served(b, b.Client, "tcp", bed.HostPort(bed.IP4, 80)) == answered &&
			served(b, b.Client, "udp", bed.HostPort(bed.IP6, 80)) == answered
	})
	times := 0
	b.Eventually("the proxy to answer alike three times", func() bool {
		time.Sleep(200 * time.Millisecond)
		was := out
		if out = outcomes(b); slices.Equal(was, out) {
			times++
		} else {
			times = 0
		}
		return times == 2
	})
	return out
}

// outcomes are what clients of NodePorts get, and the proxy's count of its listeners.
func outcomes(b *bed.Bed) (out []string) {
	b.Helper()
	for _, c := range []struct {
		name, ip string
		from     *topology.Host
	}{
		{"127.0.0.1", "127.0.0.1", b.Node}, {"127.0.0.9", "127.0.0.9", b.Node}, {"::1", "::1", b.Node},
		{"the node's IPv4 address", b.Node.IPv4.String(), b.Client},
		{"the node's IPv6 address", b.Node.IPv6.String(), b.Client},
	} {
		for _, network := range []string{"tcp", "udp"} {
			out = append(out, fmt.Sprintf("%s at %s: %s", strings.ToUpper(network), c.name,
				served(b, c.from, network, bed.HostPort(c.ip, bed.NodePort))))
		}
	}
	code, body, err := b.Get("127.0.0.1:10249", "/metrics")
	if err != nil || code != http.StatusOK {
		b.Fatalf("/metrics: %d, %v", code, err)
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		n := "none"
		series := regexp.QuoteMeta(`kubeproxy_nftables_localhost_nodeport_listeners{ip_family="` + family + `"}`)
		if found := regexp.MustCompile(`(?m)^` + series + ` (\d+)$`).FindStringSubmatch(body); found != nil {
			n = found[1]
		}
		out = append(out, fmt.Sprintf("listeners of %s: %s", family, n))
	}
	return out
}

const answered = "answered"

// served is the outcome of a request, whichever pod answers.
func served(b *bed.Bed, from *topology.Host, network, at string) string {
	switch is := apibed.Outcome(bed.SilenceTimeout, from, network, at); is {
	case apibed.Refused, apibed.Reset, apibed.NoReply:
		return strings.Trim(is, "()")
	case bed.PodName(0), bed.PodName(1):
		return answered
	default:
		b.Logf("%s %s: %s", network, at, is)
		return "error"
	}
}

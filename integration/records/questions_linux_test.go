package records

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// The tools, as make check-pipeline has them.
const (
	pipeline = "PIPELINE" // the folder whose node_modules has ClickHouse and Vector's language
	logql    = "LOGQL"    // the program integration/loki
)

// tool is the absolute path of one of these.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := os.Getenv(name)
	if path == "" {
		if os.Getenv("REQUIRE_ALL") != "" {
			t.Fatalf("%s is not set: make check-pipeline sets it", name)
		}
		t.Skipf("%s is not set: make check-pipeline sets it", name)
	}
	return path
}

const (
	apiIP, apiPort = "10.96.0.20", 9090
	dnsIP, dnsPort = "10.96.0.30", 5300
	rounds         = 12
)

// plant has a daemon carry connections to a slow pod, to one that resets, to one that refuses, and datagrams to a port
// where nobody listens. It returns the log.
func plant(b *bed.Bed) (log string) {
	b.Serve(b.Net.Pod(0), bed.PodPort, bed.NamesItself("pod0"))
	b.Serve(b.Net.Pod(1), bed.PodPort, func(c *net.TCPConn) {
		time.Sleep(300 * time.Millisecond)
		bed.NamesItself("pod1")(c)
	})
	b.Serve(b.Net.Pod(2), bed.PodPort, func(c *net.TCPConn) { _ = c.SetLinger(0) })
	b.Serve(b.Net.Pod(0), apiPort, bed.NamesItself("pod0"))
	api := bed.Service{Name: "api", IPs: []string{apiIP}, Pods: b.Endpoints(0, 1),
		Ports: []bed.Port{bed.NewPort("http", "TCP", 80, 0, apiPort)}}
	dns := bed.Service{Name: "dns", IPs: []string{dnsIP}, Pods: b.Endpoints(0),
		Ports: []bed.Port{bed.NewPort("dns", "UDP", 53, 0, dnsPort)}}
	d := b.Start(b.Cart(0, 1, 2).String() + "---\n" + api.String() + "---\n" + dns.String())
	for range rounds {
		_, _ = bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)) // one in three is reset
		if _, err := bed.Ask(b.Client, "tcp", bed.HostPort(apiIP, 80)); err != nil {
			b.Fatal(err)
		}
	}
	_, _ = bed.AskWithin(time.Second, b.Client, "udp", bed.HostPort(dnsIP, 53))
	d.Stop()
	return d.File
}

// slow matches milliseconds of the slow pod, which takes 300 at least.
const slow = `([3-9][0-9]{2}|[1-9][0-9]{3,})`

// want is what the answers to a question match: ClickHouse's, Loki's, and a text that both contain.
type want struct{ question, clickhouse, loki, both string }

// Each question of deploy/records names the fault that was planted.
func TestQuestions(t *testing.T) {
	modules, engine := tool(t, pipeline), tool(t, logql)
	b := bed.New(t, "node")
	client := b.Client.IPv4.String()
	log, sent := plant(b), filepath.Join(b.Dir, "sent")
	deploy, err := filepath.Abs("../../deploy/records")
	b.Must(err)
	queries := filepath.Join(b.Dir, "queries.logql")
	text, err := os.ReadFile(filepath.Join(deploy, "queries.logql"))
	b.Must(err)
	asked := strings.NewReplacer("10.244.3.17", client, "shop/cart-b", "shop/pod1").Replace(string(text))
	b.Must(os.WriteFile(queries, []byte(asked), 0o600))
	clickhouse := answers(t, "node", filepath.Join(deploy, "check.mjs"), modules, log, sent, client, "shop/pod1")
	loki := answers(t, engine, sent, queries)
	refused := bed.HostPort(b.Net.Pod(1).IPv4.String(), apiPort)
	all := []want{
		{"who reset it", `^.."service":"shop/cart:http","pod":"shop/pod2","closed_by":"endpoint"`,
			`"closed_by":"endpoint","pod":"shop/pod2"`, `"termination":"SD"`},
		{"which pod served the client", `"pod":"shop/pod0"`, `shop/pod0 ok`, client + ":"},
		{"which endpoint is slow", `^[^}]*"of":"shop/pod1"[^}]*"byte_p99":` + slow,
			`^.."labels":."pod":"shop/pod1","service":"shop/cart:http"},"value":` + slow, `shop/pod1`},
		{"why is this pod not used", `"served":0,"failed_dials":[1-9][0-9]*,"why":."connection refused"`,
			`"why":"connection refused"},"value":[1-9]`, refused},
		{"who still talks to the pod", `"duration_ms":` + slow, slow + `(\.[0-9]*)? ms`, client + ":"},
		{"what changed before errors began", `^[^}]*"outcome":"endpoint_reset"[^}]*"first_pod":"shop/pod2"`,
			`shop/pod2 endpoint_reset`, `shop/pod2`},
		{"us, the network, or the pod", `"who":"pod","outcome":"endpoint_reset","pods":."shop/pod2"`,
			`"outcome":"endpoint_reset","service":"shop/cart:http","termination":"S`, `endpoint_reset`},
		{"uneven, and why", `"of":"shop/pod0","connections":12,"percent":100`,
			`"pod":"shop/pod0","service":"shop/api:http"},"value":12`, `shop/api:http`},
		{"who holds most connections", `"connections":12`, `"service":"shop/cart:http"},"value":1[0-9]{3}`,
			`"address":"` + client + `"`},
		{"why does every Nth hang", `"why":"connection refused","dials":[1-9]`, `"why":"connection refused"`, refused},
		{"why does UDP go nowhere", `"sessions":1}`, `"value":1}`, `shop/dns:dns`},
		{"what would happen in kernel mode", `"service":"shop/api:http","dialled_again":[1-9]`,
			`"service":"shop/api:http"},"value":[1-9]`, `shop/api:http`},
	}
	if len(clickhouse) != len(all) || len(loki) != len(all) {
		t.Fatalf("%d and %d answers to %d questions", len(clickhouse), len(loki), len(all))
	}
	for i, w := range all {
		check(t, w.question+", ClickHouse", clickhouse[i], w.clickhouse, w.both)
		check(t, w.question+", Loki", loki[i], w.loki, w.both)
	}
}

func check(t *testing.T, question, answer, pattern, text string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(answer) || !strings.Contains(answer, text) {
		t.Errorf("%s: %s, and %s, are not in\n%s", question, pattern, text, answer)
	}
}

// answers are the lines that a tool prints.
func answers(t *testing.T, name string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, said.String())
	}
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(string(out), `\/`, "/")), "\n")
}

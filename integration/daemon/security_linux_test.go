package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/proxy/adminsocket"
)

const (
	root   = 0
	nobody = 65534
	secret = "hush"
)

// site is a node with the default settings.
type site struct {
	*bed.Bed
	daemon *bed.Daemon
	keep   string // the keeper's socket
	health int    // the port of a health check
}

// rows are the first columns of the tables of SECURITY.md, each with the check that proves it.
var rows = map[string]func(s *site){
	"clients of Services, from anywhere": clientsOfServices,
	"endpoints":                          endpointsThatStall,
	"who may write Services, EndpointSlices and annotations of a namespace": tenantsOfTheNode,
	"users of a node who are not root, and pods in its network":             usersOfTheNode,
	"the daemon itself": func(s *site) {
		s.elsewhere("integration/modes", "TestDeployed")
		s.elsewhere("integration/api", "TestAPIAccess")
	},
	"/healthz, /livez": func(s *site) {
		for _, path := range []string{"/healthz", "/livez"} {
			s.answers(s.Node, nobody, "127.0.0.1:10256", path, http.StatusOK)
			s.answers(s.Client, root, s.Node.IPv4.String()+":10256", path, http.StatusOK)
		}
	},
	"healthCheckNodePort": func(s *site) {
		s.answers(s.Client, root, fmt.Sprintf("%s:%d", s.Node.IPv4, s.health), "/", http.StatusOK)
	},
	"/metrics, /metrics/slis, /healthz, /proxyMode, /statusz": func(s *site) {
		s.metricsPages(http.StatusOK, "/metrics", "/metrics/slis", "/healthz", "/proxyMode", "/statusz")
	},
	"/configz, /flagz": func(s *site) {
		pages := strings.Join(s.metricsPages(http.StatusOK, "/configz", "/flagz"), "")
		if strings.Contains(pages, secret) || !strings.Contains(pages, "Authorization=REDACTED") {
			s.Errorf("secrets: %s", pages)
		}
	},
	"/v1/info, /v1/connections, /v1/records, /v1/services, /v1/endpoints": readOnlyAPI,
	"/ui/":                          pageOfNode,
	"/debug/pprof/, /debug/flags/v": profiling,
	"the admin socket":              adminSocket,
	"the hand-over socket": func(s *site) {
		path := strings.TrimSuffix(s.daemon.Socket, ".sock") + "-handover.sock"
		s.socket("unixpacket", path)
		s.private(path + ".lock")
	},
	"the keeper's socket":       func(s *site) { s.socket("unixpacket", s.keep) },
	"the admin pipe of Windows": func(s *site) { s.elsewhere("proxy/adminsocket", "TestPipeIsForAdministrators") },
	"the page of portald ui": func(s *site) {
		s.elsewhere("proxy/webui", "TestGuard")
		s.elsewhere("proxy/webui", "TestRebinding")
		s.elsewhere("cmd/portald/ui", "TestListenElsewhere")
	},
	"proxy ports":                proxyPorts,
	"connection log and own log": logsOfTheNode,
	"flags":                      flagsOfTheProcess,
}

// Each row of the tables of SECURITY.md has a test here, which is run, and no test is about a row that is not there.
func TestSecurityTables(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \|.*\|$`).FindAllStringSubmatch(string(text), -1) {
		if name := strings.ReplaceAll(m[1], "`", ""); name != "who" && name != "what" {
			listed[name] = true
		}
	}
	for name := range listed {
		if rows[name] == nil {
			t.Errorf("the row %q of SECURITY.md has no test", name)
		}
	}
	s := newSite(t)
	for name, test := range rows {
		if !listed[name] {
			t.Errorf("SECURITY.md has no row %q", name)
		}
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			own := *s.Bed
			own.T = t
			test(&site{&own, s.daemon, s.keep, s.health})
		})
	}
}

func newSite(t *testing.T) *site {
	if os.Getuid() != 0 {
		topology.Lack(t, "needs root: only root can be another user")
	}
	b := bed.New(t)
	b.ServePods(0)
	s := &site{Bed: b, keep: filepath.Join(b.ShortDir(), "keep.sock"), health: 32123}
	keeper := b.Exec(b.Line("keep", "--socket", s.keep)...)
	b.Eventually("the keeper", func() bool { return strings.Contains(keeper.Log.String(), "keeps at") })
	balanced := b.Cart(0)
	balanced.Name, balanced.Kind, balanced.Balancer = "balanced", "LoadBalancer", []string{"203.0.113.10"}
	balanced.IPs = []string{"10.96.0.20"}
	balanced.Ports = []bed.Port{bed.NewPort("http", "TCP", 80, 30090, bed.PodPort)}
	kind := "spec:\n  type: LoadBalancer\n"
	manifest := strings.Replace(balanced.String(), kind, kind+fmt.Sprintf("  externalTrafficPolicy: Local\n"+
		"  healthCheckNodePort: %d\n  loadBalancerSourceRanges: [\"%s/32\"]\n", s.health, b.Client.IPv4), 1)
	thief := b.Simple("thief", bed.IP4, 1) // and has the address of another
	thief.Created, thief.External = "2026-01-02T00:00:00Z", []string{"203.0.113.99"}
	thief.Annotations = []string{"portald.io/mode: kernel"}
	owner := b.Cart(0)
	owner.Created = "2026-01-01T00:00:00Z"
	dead := b.Simple("dead", "10.96.0.66", 0)
	dead.Pods = []bed.Endpoint{{V4: bed.Parse("10.244.0.250")}} // nobody answers there
	config := b.WriteManifest("config.yaml", "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\n"+
		"refusedAnnotations: [mode]\nconnectTimeouts: [300ms]\nretries: 0\n"+
		"connectionLog: {otlp: {endpoint: 'http://127.0.0.1:1', headers: ['Authorization=Bearer "+secret+"']}}\n")
	manifests := b.WriteManifest(bed.Manifest, owner.String()+thief.String()+manifest+dead.String())
	args := []string{"--manifests", manifests, "--config", config, "--keep-socket", s.keep, "--log-file",
		filepath.Join(b.Dir, "own.log")}
	s.daemon = b.StartWith(args...)
	return s
}

// as runs f on a host as a user, on a thread of its own.
func as(h *topology.Host, uid int, f func() error) error {
	return h.Do(func() error {
		if uid == root {
			return f()
		}
		for _, call := range [][4]uintptr{
			{syscall.SYS_SETGROUPS, 0, 0, 0}, {syscall.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid)},
			{syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
		} {
			if _, _, errno := syscall.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				return errno
			}
		}
		return f()
	})
}

// request asks an HTTP server of a host as a user.
func request(h *topology.Host, uid int, at, method, path, host, body string) (code int, text string, err error) {
	var c net.Conn
	if err = as(h, uid, func() error { c, err = net.DialTimeout("tcp", at, bed.AnswerTimeout); return err }); err != nil {
		return 0, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * bed.AnswerTimeout))
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", method, path, host,
		len(body), body)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(all), err
}

// answers checks the status of a page.
func (s *site) answers(h *topology.Host, uid int, at, path string, want int) string {
	s.Helper()
	code, text, err := request(h, uid, at, "GET", path, at, "")
	if err != nil || code != want {
		s.Errorf("%s%s, asked by %d of %s: %d %.200s, %v; want %d", at, path, uid, h.Name, code, text, err, want)
	}
	return text
}

// metricsPages are pages of the metrics server: of the node alone by default.
func (s *site) metricsPages(want int, paths ...string) (texts []string) {
	s.Helper()
	for _, path := range paths {
		texts = append(texts, s.answers(s.Node, nobody, "127.0.0.1:10249", path, want))
		if code, _, err := request(s.Client, root, s.Node.IPv4.String()+":10249", "GET", path, "x", ""); err == nil {
			s.Errorf("%s answers another host: %d", path, code)
		}
	}
	return texts
}

// socket checks that root is let in at a socket and nobody else, also when all may open it.
func (s *site) socket(network, path string) {
	s.Helper()
	s.private(path)
	dial := func(uid int) (err error) {
		return as(s.Node, uid, func() error {
			c, err := net.DialTimeout(network, path, bed.AnswerTimeout)
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
			if _, err = c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				return nil // it waits for what is asked
			}
			return fmt.Errorf("closed: %w", err)
		})
	}
	if err := dial(root); err != nil {
		s.Errorf("%s closes to root: %v", path, err)
	}
	if err := dial(nobody); !errors.Is(err, os.ErrPermission) {
		s.Errorf("%s is open to nobody: %v", path, err)
	}
	above, err := os.Stat(filepath.Dir(path))
	s.Must(err)
	s.Must(os.Chmod(filepath.Dir(path), 0o755))
	s.Must(os.Chmod(path, 0o666))
	defer func() {
		s.Must(os.Chmod(path, 0o600))
		s.Must(os.Chmod(filepath.Dir(path), above.Mode().Perm()))
	}()
	if err := dial(nobody); err == nil || errors.Is(err, os.ErrPermission) {
		s.Errorf("%s, which everybody may open, serves nobody: %v", path, err)
	}
	if err := dial(root); err != nil {
		s.Errorf("%s closes to root after that: %v", path, err)
	}
}

// private checks that a file is for its user alone.
func (s *site) private(path string) {
	s.Helper()
	info, err := os.Stat(path)
	s.Must(err)
	if info.Mode().Perm() != 0o600 {
		s.Errorf("%s has the mode %o", path, info.Mode().Perm())
	}
}

// elsewhere checks that there is a test in another package.
func (s *site) elsewhere(pkg, name string) {
	s.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*_test.go"))
	s.Must(err)
	if !slices.ContainsFunc(files, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "func "+name+"(")
	}) {
		s.Errorf("%s has no %s", pkg, name)
	}
}

func clientsOfServices(s *site) {
	proxyPorts(s)
	s.elsewhere("integration/daemon", "TestHostileClientsOfServers")
	s.elsewhere("integration/traffic", "TestHostileSourcesWithTransparent")
	if a, err := bed.Ask(s.Client, "tcp", "203.0.113.10:80"); err != nil || a.Pod != "pod0" {
		s.Errorf("within the source ranges: %v, %v", a, err)
	}
	if a, err := bed.AskWithin(bed.SilenceTimeout, s.Net.Client(1), "tcp", "203.0.113.10:80"); err == nil {
		s.Errorf("out of the source ranges: %v", a)
	}
}

// endpointsThatStall: one that does not answer has its client refused in time, and nobody else notices.
func endpointsThatStall(s *site) {
	began := time.Now()
	waits := make(chan error)
	go func() {
		_, err := bed.Ask(s.Client, "tcp", "10.96.0.66:80")
		waits <- err
	}()
	s.ServedBy(bed.IP4, "pod0")
	if err := <-waits; err == nil || time.Since(began) > bed.AnswerTimeout {
		s.Errorf("the client of an endpoint that stalls: %v after %v", err, time.Since(began))
	}
}

// tenantsOfTheNode: a younger Service takes neither the address of another nor an external one, and does not choose who
// carries it where the node refuses that.
func tenantsOfTheNode(s *site) {
	s.ServedBy(bed.IP4, "pod0")
	if a, err := bed.AskWithin(bed.SilenceTimeout, s.Client, "tcp", "203.0.113.99:80"); err == nil {
		s.Errorf("an external IP is served: %v", a)
	}
	all, err := s.daemon.Admin().Services(s.Context(), adminsocket.ServiceQuery{Services: []string{"shop/thief"}})
	if s.Must(err); len(all) != 1 || all[0].Mode != "userspace" || len(all[0].Frontends) != 1 ||
		all[0].Frontends[0].Holder != "shop/cart:http" {
		s.Errorf("the younger Service: %+v", all)
	}
	s.elsewhere("proxy/metrics", "TestLabelsArePrintable")
	s.elsewhere("proxy/adminsocket", "TestAnswersArePrintable")
	s.elsewhere("cmd/portald/config", "TestLogIsPrintable")
}

// usersOfTheNode: the commands say that they are for root.
func usersOfTheNode(s *site) {
	s.answers(s.Node, nobody, "127.0.0.1:10249", "/metrics", http.StatusOK)
	s.answers(s.Node, nobody, "127.0.0.1:10256", "/healthz", http.StatusOK)
	err := as(s.Node, nobody, func() error {
		c, err := net.Dial("unix", s.daemon.Socket)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if !errors.Is(err, os.ErrPermission) {
		s.Errorf("the admin socket: %v", err)
	}
}

func adminSocket(s *site) { s.socket("unix", s.daemon.Socket) }

func readOnlyAPI(s *site) {
	s.metricsPages(http.StatusNotFound, "/v1/info", "/v1/connections", "/v1/records", "/v1/services", "/v1/endpoints")
	s.with([]string{"--read-only-api", "--metrics-bind-address=0.0.0.0:10249"}, func(o *site) {
		at := o.Node.IPv4.String() + ":10249"
		for _, path := range []string{"/v1/info", "/v1/connections", "/v1/records", "/v1/services", "/v1/endpoints"} {
			o.answers(o.Node, nobody, "127.0.0.1:10249", path, http.StatusOK)
			o.answers(o.Client, root, at, path, http.StatusForbidden)
			if code, _, err := request(o.Node, nobody, "127.0.0.1:10249", "GET", path, "evil.example", ""); err != nil ||
				code != http.StatusForbidden {
				o.Errorf("%s by another name: %d, %v", path, code, err)
			}
			if code, _, err := request(o.Node, root, "127.0.0.1:10249", "POST", path, "localhost", "{}"); err != nil ||
				code != http.StatusMethodNotAllowed {
				o.Errorf("POST %s: %d, %v", path, code, err)
			}
		}
		for _, path := range []string{"/v1/cut", "/v1/drain", "/v1/undrain", "/v1/loglevel", "/v1/explain", "/v1/flip",
			"/v1/configuration", "/v1/metrics"} {
			if code, _, err := request(o.Node, root, "127.0.0.1:10249", "POST", path, "localhost", "{}"); err != nil ||
				code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
				o.Errorf("POST %s: %d, %v", path, code, err)
			}
		}
		for _, path := range []string{"/metrics", "/configz"} {
			o.answers(o.Client, root, at, path, http.StatusOK)
		}
	})
}

func pageOfNode(s *site) {
	paths := []string{"/ui/", "/ui/main.js", "/ui/api/overview", "/ui/api/endings", "/ui/api/connections"}
	s.metricsPages(http.StatusNotFound, paths...)
	s.with([]string{"--ui", "--read-only-api", "--metrics-bind-address=0.0.0.0:10249"}, func(o *site) {
		for _, path := range paths {
			o.answers(o.Node, nobody, "127.0.0.1:10249", path, http.StatusOK)
			o.answers(o.Client, root, o.Node.IPv4.String()+":10249", path, http.StatusForbidden)
			for _, name := range []string{"evil.example", o.Node.IPv4.String()} {
				if code, _, err := request(o.Node, nobody, "127.0.0.1:10249", "GET", path, name, ""); err != nil ||
					code != http.StatusForbidden {
					o.Errorf("%s by the name %s: %d, %v", path, name, code, err)
				}
			}
			if code, _, err := request(o.Node, root, "127.0.0.1:10249", "POST", path, "localhost", "{}"); err != nil ||
				code != http.StatusMethodNotAllowed {
				o.Errorf("POST %s: %d, %v", path, code, err)
			}
		}
	})
}

func profiling(s *site) {
	s.metricsPages(http.StatusNotFound, "/debug/pprof/", "/debug/pprof/cmdline", "/debug/flags/v")
	s.with([]string{"--profiling", "--connection-log-otlp-headers=A=" + secret}, func(o *site) {
		if text := o.answers(o.Node, nobody, "127.0.0.1:10249", "/debug/pprof/cmdline", http.StatusOK); strings.Contains(
			text, secret) || !strings.Contains(text, "--profiling") {
			o.Errorf("the command line: %q", text)
		}
		code, _, err := request(o.Node, nobody, "127.0.0.1:10249", "PUT", "/debug/flags/v", "localhost", "4")
		if err != nil || code != http.StatusOK {
			o.Errorf("PUT /debug/flags/v: %d, %v", code, err)
		}
	})
}

// with runs a daemon on a node of its own with more flags.
func (s *site) with(flags []string, test func(*site)) {
	s.Helper()
	s.Run("on", func(t *testing.T) {
		b := bed.New(t)
		b.ServePods(0)
		test(&site{Bed: b, daemon: b.Start(b.Cart(0), flags...)})
	})
}

// proxyPorts: one that is dialled without a frontend serves nobody.
func proxyPorts(s *site) {
	for port := 11000; port < 11010; port++ {
		for _, from := range []*topology.Host{s.Client, s.Net.Pod(1), s.Node} {
			at := fmt.Sprintf("%s:%d", s.Node.IPv4, port)
			if a, err := bed.AskWithin(bed.SilenceTimeout, from, "tcp", at); err == nil {
				s.Errorf("port %d serves %s: %v", port, from.Name, a)
			}
		}
	}
}

func logsOfTheNode(s *site) {
	_, err := bed.Ask(s.Client, "tcp", bed.HostPort(bed.IP4, 80))
	s.Must(err)
	for _, path := range []string{s.RecordFile(), filepath.Join(s.Dir, "own.log")} {
		info, err := os.Stat(path)
		s.Must(err)
		if mode := info.Mode().Perm(); mode&^0o640 != 0 {
			s.Errorf("%s has the mode %o", path, mode)
		}
		if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), secret) {
			s.Errorf("%s has a secret, or %v", path, err)
		}
	}
}

// flagsOfTheProcess: everybody reads them, which is why the manual tells to write secrets elsewhere.
func flagsOfTheProcess(s *site) {
	var text []byte
	err := as(s.Node, nobody, func() (err error) {
		text, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.daemon.Cmd.Process.Pid))
		return err
	})
	if err != nil || !strings.Contains(string(text), "--manifests") || strings.Contains(string(text), secret) {
		s.Errorf("%q, %v", text, err)
	}
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if s.Must(err); !strings.Contains(string(manual), "OTEL_EXPORTER_OTLP_HEADERS") {
		s.Error("the manual does not tell where secrets go")
	}
}

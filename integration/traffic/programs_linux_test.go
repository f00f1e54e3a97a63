package traffic

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// run starts a program on a host and waits until it serves TCP at a port. The end of the test kills the program.
func run(b *bed.Bed, h *topology.Host, port int, name string, args ...string) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := h.Command(ctx, name, args...)
	out := &bed.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
		if b.Failed() {
			b.Logf("output of %s: %s", name, out)
		}
	})
	b.Eventually(name+" to serve", func() bool {
		c, err := h.Dial(b.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// alone returns a Service with one pod and one port number for TCP, UDP and the target.
func alone(b *bed.Bed, number int) bed.Service {
	return bed.Service{Name: "alone", IPs: []string{bed.IP4, bed.IP6}, Pods: b.Endpoints(0), Ports: []bed.Port{
		bed.NewPort("stream", "TCP", number, 0, number), bed.NewPort("datagram", "UDP", number, 0, number),
	}}
}

func TestCurlAndNginx(t *testing.T) {
	b := bed.New(t, "curl", "nginx")
	page := bytes.Repeat([]byte("a large page, "), 100_000)
	if err := os.WriteFile(filepath.Join(b.Dir, "page"), page, 0o600); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf(`user root root; daemon off; master_process off; pid %[1]s/pid; error_log stderr;
events {}
http {
	access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	server { listen 80; listen [::]:80; root %[1]s; }
}`, b.Dir)
	run(b, b.Net.Pod(0), 80, "nginx", "-c", b.WriteManifest("nginx.conf", conf), "-e", "stderr")
	d := b.Start(alone(b, 80))
	for _, host := range []string{bed.IP4, "[" + bed.IP6 + "]"} {
		url := "http://" + host + "/page"
		got := b.On(b.Client, "curl", "--silent", "--show-error", "--fail", "--globoff", url, url, url)
		if want := strings.Repeat(string(page), 3); got != want {
			t.Errorf("%s: curl has %d bytes, want %d", url, len(got), len(want))
		}
	}
	r := d.RecordWhere("of curl's connection", func(r bed.Record) bool {
		return r.OriginalDst == bed.HostPort(bed.IP4, 80)
	})
	if r.BytesFromEndpoint < 3*int64(len(page)) || r.Outcome != "ok" {
		t.Errorf("three pages over one connection were recorded as %s, %d bytes", r, r.BytesFromEndpoint)
	}
}

func TestIperf(t *testing.T) {
	b := bed.New(t, "iperf3")
	run(b, b.Net.Pod(0), 5201, "iperf3", "--server")
	b.Start(alone(b, 5201))
	for _, how := range [][]string{{"-n", "500M"}, {"-n", "200M", "-P", "4"}, {"-n", "200M", "--reverse"},
		{"-u", "-b", "50M", "-t", "1"}} {
		if bed.OnWindows && how[0] == "-u" {
			continue // in a flood of datagrams Wine 8.0 loses wakeups: a program waits for sockets that are readable
		}
		for _, addr := range []string{bed.IP4, bed.IP6} {
			var out string
			var err error
			b.Eventually("iperf3's server to be done with the client before", func() bool {
				out, err = b.Try(b.Client, "iperf3", append([]string{"--client", addr}, how...)...)
				return err == nil || !strings.Contains(err.Error(), "server is busy")
			})
			if err != nil || !strings.Contains(out, "receiver") {
				t.Errorf("iperf3 %v to %s: %v\n%s", how, addr, err, out)
			}
		}
	}
}

func TestRedis(t *testing.T) {
	b := bed.New(t, "redis-server", "redis-cli", "redis-benchmark")
	run(b, b.Net.Pod(0), 6379, "redis-server", "--save", "", "--protected-mode", "no", "--bind", "* -::*", "--dir", b.Dir)
	b.Start(alone(b, 6379))
	for _, addr := range []string{bed.IP4, bed.IP6} {
		cli := func(args ...string) string {
			return strings.TrimSpace(b.On(b.Client, "redis-cli", append([]string{"-h", addr}, args...)...))
		}
		if got := cli("set", "cart", "full") + " " + cli("get", "cart"); got != "OK full" {
			t.Errorf("%s: redis-cli prints %q", addr, got)
		}
		out := b.On(b.Client, "redis-benchmark", "-h", addr, "-n", "20000", "-c", "50", "-P", "4", "-t", "set,get", "-d",
			"2000", "--csv")
		if strings.Count(out, "\n") < 3 {
			t.Errorf("%s: redis-benchmark prints %s", addr, out)
		}
	}
}

// answers returns the reply of the DNS server of TestDNS.
func answers(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	m.Answers = []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 5},
		Body:   &dnsmessage.AResource{A: netip.MustParseAddr("192.0.2.53").As4()},
	}}
	return m.Pack()
}

func TestDNS(t *testing.T) {
	b := bed.New(t, "dig")
	pod := b.Net.Pod(0)
	c, err := pod.ListenPacket("udp", "[::]:53")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() { // ends with c
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if out, err := answers(buf[:n]); err == nil {
				_, _ = c.WriteTo(out, from)
			}
		}
	}()
	b.Serve(pod, 53, func(c *net.TCPConn) {
		buf := make([]byte, 1500)
		if n, err := c.Read(buf); err == nil && n > 2 {
			if out, err := answers(buf[2:n]); err == nil {
				_, _ = c.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...))
			}
		}
	})
	b.Start(alone(b, 53))
	for _, addr := range []string{bed.IP4, bed.IP6} {
		for _, how := range []string{"+notcp", "+tcp"} {
			for _, from := range []*topology.Host{b.Client, b.Node, pod} {
				got := b.On(from, "dig", "@"+addr, how, "+short", "+tries=1", "+time=5", "cart.shop.svc.cluster.local")
				if strings.TrimSpace(got) != "192.0.2.53" {
					t.Errorf("dig %s from %s at %s prints %q", how, from.Name, addr, got)
				}
			}
		}
	}
}

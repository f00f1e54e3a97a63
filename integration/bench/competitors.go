//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// competitors lists all competitors, portald first. before is the path of an earlier portald; empty: none.
func competitors(before string) []competitor {
	const stream = "/usr/lib/nginx/modules/ngx_stream_module.so"
	all := []competitor{
		portaldIn(userspace),
		withoutRecords(),
		withKeeper(),
		withRetries(),
		portaldIn(userspace).on("goroutine"),
		underWine(),
		{name: "haproxy-splice", label: "HAProxy, splicing", program: "haproxy", from: "Debian package haproxy",
			start: haproxy(true)},
		{name: "haproxy", label: "HAProxy, no splicing", program: "haproxy", from: "Debian package haproxy",
			start: haproxy(false)},
		{name: "nginx", label: "nginx stream", program: "nginx", from: "Debian packages nginx, libnginx-mod-stream",
			file: stream,
			udp:  true, start: func(b *bed) ([]string, error) { return startNginx(b, stream) }},
		{name: "dnat", label: "kernel DNAT", udp: true, start: startDNAT},
		portaldIn("iptables"),
		portaldIn("nftables"),
		recordingFlows("off"),
		recordingFlows("failures"),
		recordingFlows("all"),
	}
	if before != "" {
		all = append(all, portaldIn(userspace).at(before), portaldIn("iptables").at(before),
			portaldIn("nftables").at(before))
	}
	return all
}

// descriptors is the descriptor limit of a process.
func descriptors() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	return int(min(l.Max, 1<<20))
}

// HAProxy takes two descriptors a connection and refuses to start when the limit does not hold what it may need.
const haproxyPipes = 500

func haproxyConns() int { return (descriptors() - 2*haproxyPipes - 400) / 2 }

func haproxy(splice bool) func(b *bed) ([]string, error) {
	options := ""
	if splice {
		options = "  option splice-auto\n  option splice-request\n  option splice-response\n"
	}
	return func(b *bed) ([]string, error) {
		config := fmt.Sprintf(`global
  maxconn %d
  maxpipes %d
  nbthread %d
defaults
  mode tcp
  maxconn %d
  timeout connect 1s
  timeout client 1h
  timeout server 1h
%slisten echo
  bind 0.0.0.0:%d
  server pod %s
listen bulk
  bind 0.0.0.0:%d
  server pod %s
listen source
  bind 0.0.0.0:%d
  server pod %s
`, haproxyConns(), haproxyPipes, runtime.NumCPU(), haproxyConns(), options,
			proxyEcho, b.pod(echoPort), proxyBulk, b.pod(bulkPort), proxySource, b.pod(sourcePort))
		file, err := b.file("haproxy.cfg", config)
		if err != nil {
			return nil, err
		}
		return []string{"haproxy", "-db", "-f", file}, b.redirect()
	}
}

func startNginx(b *bed, module string) ([]string, error) {
	config := fmt.Sprintf(`load_module %s;
user root;
daemon off;
worker_processes auto;
worker_rlimit_nofile %d;
pid %s/nginx.pid;
error_log %s/error.log error;
events { worker_connections %d; }
stream {
  proxy_half_close on;
  server { listen %d; proxy_pass %s; }
  server { listen %d; proxy_pass %s; }
  server { listen %d; proxy_pass %s; }
  server { listen %d udp reuseport; proxy_pass %s; proxy_timeout %s; }
  server { listen %d udp reuseport; proxy_pass %s; proxy_timeout %s; }
}
`, module, descriptors(), b.dir, b.dir, descriptors()-100,
		proxyEcho, b.pod(echoPort), proxyBulk, b.pod(bulkPort), proxySource, b.pod(sourcePort),
		proxyEcho, b.pod(echoPort), udpTimeout,
		proxyBulk, b.pod(bulkPort), udpTimeout)
	file, err := b.file("nginx.conf", config)
	if err != nil {
		return nil, err
	}
	return []string{"nginx", "-e", filepath.Join(b.dir, "error.log"), "-p", b.dir, "-c", file}, b.redirect()
}

func startDNAT(b *bed) ([]string, error) {
	to := func(port int) string { return "DNAT --to-destination " + b.pod(port).String() }
	return nil, b.rules(to(echoPort), to(bulkPort), to(sourcePort))
}

// redirect adds REDIRECT rules from the service to the listeners of a proxy that writes no rules itself.
func (b *bed) redirect() error {
	to := func(port int) string { return fmt.Sprintf("REDIRECT --to-ports %d", port) }
	return b.rules(to(proxyEcho), to(proxyBulk), to(proxySource))
}

func (b *bed) rules(echo, bulk, source string) error {
	var text strings.Builder
	rule := func(proto string, port int, target string) {
		fmt.Fprintf(&text, "-A PREROUTING -d %s -p %s --dport %d -j %s\n", vip, proto, port, target)
	}
	text.WriteString("*nat\n")
	rule("tcp", echoPort, echo)
	rule("tcp", bulkPort, bulk)
	rule("tcp", sourcePort, source)
	rule("udp", echoPort, echo)
	rule("udp", bulkPort, bulk)
	text.WriteString("COMMIT\n")
	restore := b.net.Node.Command(b.ctx, "iptables-restore", "--noflush", "--wait")
	restore.Stdin = strings.NewReader(text.String())
	if out, err := restore.CombinedOutput(); err != nil {
		return fmt.Errorf("restore rules: %w: %s", err, out)
	}
	return nil
}

// underWine is portald.exe on a node that Wine makes a Windows node.
func underWine() competitor {
	c := portaldIn(userspace)
	c.name, c.label, c.windows, c.start = c.name+"-wine", "portald.exe under Wine", true, startPortaldExe
	return c
}

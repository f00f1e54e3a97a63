package ui

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/browser"
	"github.com/portald/portald/integration/topology"
)

// scene is a node on which things go wrong, and its page.
type scene struct {
	*bed.Bed
	daemon *bed.Daemon
	page   string // its address, with the token
	origin string
	token  string
}

// newScene starts a daemon on such a node, and portald ui.
func newScene(t *testing.T) *scene {
	s := newSite(t)
	s.daemon = s.Start(manifests(s.Bed), "--kernel-records=all")
	s.serve()
	return s
}

// newSite is a node without a daemon: of cart one pod serves, one resets after the request, and one refuses.
func newSite(t *testing.T) *scene {
	topology.Require(t, "chromium")
	b := bed.New(t)
	b.Serve(b.Net.Pod(0), bed.PodPort, bed.NamesItself("pod0"))
	b.Serve(b.Net.Pod(1), bed.PodPort, resets)
	b.Refuse(2)
	return &scene{Bed: b}
}

// newBrowser starts a browser on the node.
func newBrowser(b *bed.Bed, origin string) *browser.Browser {
	b.Helper()
	return browser.New(b.T, b.Node, origin)
}

// resets is a pod that resets connections after the request.
func resets(c *net.TCPConn) {
	_, _ = c.Read(make([]byte, 1))
	_ = c.SetLinger(0)
}

func manifests(b *bed.Bed) string {
	cart := b.Cart(0, 1, 2)
	cart.Pods[1].Pod = "crashing"
	empty := b.Simple("checkout", "10.96.0.20", 0)
	empty.Pods = nil
	kernel := b.Simple("search", "10.96.0.30", 0)
	kernel.Mode = "kernel"
	all := cart.String() + empty.String() + kernel.String()
	for name, ip := range map[string]string{"catalog": "10.96.0.50", "payment": "10.96.0.60", "mail": "10.96.0.70"} {
		all += b.Simple(name, ip, 0).String()
	}
	return all
}

// serve starts portald ui on the node.
func (s *scene) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := s.Node.Command(ctx, bed.Portald, "ui", "--no-browser", "--socket", s.daemon.Socket)
	out, err := cmd.StdoutPipe()
	s.Must(err)
	log := &bed.Output{}
	cmd.Stderr = log
	s.Must(cmd.Start())
	s.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if s.Failed() || strings.Contains(log.String(), "DATA RACE") {
			s.Errorf("portald ui says: %s", log)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	s.Must(err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	s.page = strings.TrimSpace(line)
	s.origin, s.token, _ = strings.Cut(s.page, "/#token=")
}

// clients sends so many requests to a Service, one after the other, whatever becomes of them.
func (s *scene) clients(n int, ip string) {
	for range n {
		c, err := bed.Dial(5*time.Second, s.Client, "tcp", bed.HostPort(ip, 80))
		if err != nil {
			continue
		}
		if _, err := io.WriteString(c, "hello\n"); err == nil {
			_, _ = bufio.NewReader(c).ReadString('\n')
		}
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		c.Close()
	}
}

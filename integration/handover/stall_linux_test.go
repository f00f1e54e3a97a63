package handover

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/succession/handover"
)

// A portald that stands still, as while somebody has stopped it, is replaced by the next one to start. When it goes on
// it leaves rules and addresses to that one, serves what it has open to the end, and ends.
func TestStalled(t *testing.T) {
	for _, m := range bed.Modes() {
		for _, toldToEnd := range []bool{false, true} {
			name := m.Name + " that goes on"
			if toldToEnd {
				name = m.Name + " that is told to end"
			}
			t.Run(name, func(t *testing.T) { stalled(bed.New(t), m, toldToEnd) })
		}
	}
}

func stalled(b *bed.Bed, m bed.Mode, toldToEnd bool) {
	b.ServePods(0)
	first := b.Start(b.Cart(0), m.Args...)
	first.ExpectErrors = true
	c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
	first.Signal(syscall.SIGSTOP)
	second := first.Succeed()
	if !bed.Within(time.Minute, func() bool { return strings.Contains(second.Log.String(), "Ready: ") }) {
		b.Fatal("the second does not serve")
	}
	b.ServedBy(bed.IP4, bed.PodName(0))
	rules := rulesOf(b)

	first.Signal(syscall.SIGCONT)
	if toldToEnd {
		first.Signal(syscall.SIGTERM)
	} else {
		b.Eventually("the first to leave the node to the second", func() bool {
			return strings.Contains(first.Log.String(), "another one serves the node now")
		})
	}
	if err := bed.Echoes(c, r); err != nil {
		b.Errorf("the connection of the first: %v", err)
	}
	b.Eventually("the second to answer for its health", func() bool {
		code, _, err := second.Get("127.0.0.1:10256", "/healthz")
		info, failed := second.Admin().Info(b.Context())
		return err == nil && code == http.StatusOK && failed == nil && info.PID == second.Cmd.Process.Pid
	})
	select {
	case <-first.Ended:
		if !m.Kernel {
			b.Error("the first ended with a connection open")
		}
	default:
	}
	_ = c.CloseWrite()
	if code := first.Exit(); code != 0 {
		b.Errorf("the first ended with code %d", code)
	}
	if after := rulesOf(b); after != rules {
		b.Errorf("before the first went on:\n%s\nafter it ended:\n%s", rules, after)
	}
	b.ServedBy(bed.IP4, bed.PodName(0))
	b.ServedBy(bed.IP6, bed.PodName(0))
	b.Eventually("the NodePort at the loopback address", func() bool {
		a, err := bed.Ask(b.Node, "tcp", bed.HostPort("127.0.0.1", bed.NodePort))
		return err == nil && a.Pod == bed.PodName(0)
	})
}

// A successor that stands still once it has begun holds up the changes of the node for seconds.
func TestSuccessorStalls(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	d := b.Start(b.Cart(0), "--iptables-min-sync-period=0s")
	p := beginTakeover(b, d)
	defer p.Close()

	began := time.Now()
	b.WriteManifest(bed.Manifest, b.Cart(1))
	b.Eventually("a change to be applied", func() bool {
		a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		return err == nil && a.Pod == bed.PodName(1)
	})
	t.Logf("after %s", time.Since(began).Round(time.Millisecond))
	b.Eventually("the first to tell", func() bool {
		return strings.Contains(d.Log.String(), "The successor did not take over")
	})
	next := d.Succeed()
	d.Exit()
	next.WaitReady()
	b.ServedBy(bed.IP4, bed.PodName(1))
}

// beginTakeover returns the daemon as a successor sees it that has begun to take over.
func beginTakeover(b *bed.Bed, d *bed.Daemon) *handover.Predecessor {
	b.Helper()
	path := strings.TrimSuffix(d.Socket, ".sock") + "-handover.sock"
	own := handover.Identity{Version: "v1"}
	_, err := handover.Dial(b.Context(), path, own)
	_, quoted, _ := strings.Cut(fmt.Sprint(err), "this is ")
	quoted, _, _ = strings.Cut(quoted, ", not ")
	if own.Installation, err = strconv.Unquote(quoted); err != nil {
		b.Fatalf("the installation in %q: %v", quoted, err)
	}
	p, err := handover.Dial(b.Context(), path, own)
	b.Must(err)
	estate, err := p.Begin(1000)
	b.Must(err)
	for _, fd := range estate.Files {
		b.Must(syscall.Close(fd))
	}
	return p
}

// rulesOf are those of iptables and nftables, without their counters.
func rulesOf(b *bed.Bed) string {
	counted := regexp.MustCompile(`(?m)packets \d+ bytes \d+|expires \S+`)
	return b.Rules() + counted.ReplaceAllString(b.Ruleset(), "")
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/portald/portald/integration/load"
)

// Of the Service that changes, at changingVIP; its pods answer at the port with their name.
const (
	changingPort = 9100
	changes      = 5                     // per kind and round
	lostAfter    = 20 * time.Millisecond // a SYN to an address that is not yet a frontend often gets no answer
	askAgain     = time.Millisecond      // requests without a pause would slow down the measured sync
)

// portald's histograms of full and partial syncs.
const (
	fullSync    = "kubeproxy_sync_full_proxy_rules_duration_seconds"
	partialSync = "kubeproxy_sync_partial_proxy_rules_duration_seconds"
)

// manyWorkload compares new connections to addresses drawn at random among many Services with those to a single one.
func manyWorkload(n int) workload {
	label := fmt.Sprintf("new connections to %d Services", n)
	return workload{
		name: fmt.Sprint("crr", n), label: label, among: portaldAlone,
		figures: []figure{{"rate", labelled(label, "per second"), 0}, {"cpu", labelled(label, "CPU µs each"), 1},
			{"one", "new connections to one Service, per second", 0}, {"ratio", "10000 Services to one Service, ratio", 2}},
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			many, err := b.lab.bed(ctx, b.with(n))
			if err != nil {
				return nil, err
			}
			c := load.Churn{Proto: "tcp", Conns: 16}
			one, err := b.churn(ctx, c, service(echoPort).String(), p.span)
			if err != nil {
				return nil, err
			}
			f, err := many.churn(ctx, c, "@"+many.targets(), p.span)
			if err != nil {
				return nil, err
			}
			f["one"], f["ratio"] = one["rate"], f["rate"]/one["rate"]
			return f, nil
		},
	}
}

// syncWorkload measures the start with n Services, and changes of one of them, by portald's metric and by a client.
func syncWorkload(n int) workload {
	at := fmt.Sprintf("%d Services, ", n)
	return workload{
		name: fmt.Sprint("sync", n), label: fmt.Sprintf("sync of %d Services", n), among: portaldAlone, most: 3,
		figures: []figure{
			{"first", at + "first sync, ms", 0}, {"start", at + "from start to healthy, ms", 0},
			{"endpoints", at + "a change of endpoints, ms", 3},
			{"endpoints-seen", at + "a change of endpoints until seen by clients, ms", 1},
			{"service", at + "a change of a Service, ms", 1},
			{"service-seen", at + "a change of a Service until seen by clients, ms", 1},
		},
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			many, err := b.lab.bed(ctx, b.with(n))
			if err != nil {
				return nil, err
			}
			f := figures{}
			if err := many.timeStart(ctx, f); err != nil {
				return nil, err
			}
			return f, many.timeChanges(ctx, f)
		},
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// timeStart restarts portald and measures the time until it is healthy and the full sync.
func (b *bed) timeStart(ctx context.Context, f figures) error {
	b.down()
	args, err := b.start(b)
	if err != nil {
		return err
	}
	if err := b.change("0", 80); err != nil {
		return err
	}
	began := time.Now()
	if err := b.launch(args); err != nil {
		return err
	}
	if err := b.healthy(ctx); err != nil {
		return err
	}
	f["start"] = milliseconds(time.Since(began))
	sum, count, err := b.duration(ctx, fullSync)
	if err == nil && count == 0 {
		err = fmt.Errorf("portald is healthy without a %s", fullSync)
	}
	if err != nil {
		return err
	}
	f["first"] = milliseconds(sum) / float64(count)
	return nil
}

// change replaces the manifest of the changing Service by rename; pod is the number of its new endpoint.
func (b *bed) change(pod string, frontendPort int) error {
	var text strings.Builder
	endpoints := b.endpoints(changing, int(pod[0]-'0'))
	object(&text, "changing", netip.MustParseAddr(changingVIP), []port{{"who", "TCP", changingPort}}, endpoints)
	changed := strings.Replace(text.String(), fmt.Sprintf(`"port": %d, "targetPort"`, changingPort),
		fmt.Sprintf(`"port": %d, "targetPort"`, frontendPort), 1)
	path, err := b.file("changing.json", changed)
	if err != nil {
		return err
	}
	return os.Rename(path, b.manifest("changing.json"))
}

// timeChanges changes the Service's endpoint several times, and then its port.
func (b *bed) timeChanges(ctx context.Context, f figures) error {
	stop, err := b.nameServers()
	if err != nil {
		return err
	}
	defer stop()
	if err := b.seen(ctx, 80, "0"); err != nil {
		return err
	}
	pod, port := "0", 80
	f["endpoints"], f["endpoints-seen"], err = b.timed(ctx, func() (int, string) {
		pod = map[string]string{"0": "1", "1": "0"}[pod]
		return port, pod
	})
	if err != nil {
		return fmt.Errorf("change endpoints: %w", err)
	}
	f["service"], f["service-seen"], err = b.timed(ctx, func() (int, string) {
		port = 80 + (port+1)%2
		return port, pod
	})
	if err != nil {
		return fmt.Errorf("change a Service: %w", err)
	}
	return nil
}

// timed makes changes one by one. It returns the medians, in milliseconds, of the time that portald took to apply one
// and of the time from the rename until a client sees it.
func (b *bed) timed(ctx context.Context, next func() (int, string)) (inside, outside float64, err error) {
	var in, out []float64
	for range changes {
		before, count, err := b.duration(ctx, partialSync)
		if err != nil {
			return 0, 0, err
		}
		port, pod := next()
		began := time.Now()
		if err := b.change(pod, port); err != nil {
			return 0, 0, err
		}
		if err := b.seen(ctx, port, pod); err != nil {
			return 0, 0, err
		}
		out = append(out, milliseconds(time.Since(began)))
		took, err := b.synced(ctx, before, count)
		if err != nil {
			return 0, 0, err
		}
		in = append(in, milliseconds(took))
	}
	return median(in), median(out), nil
}

// synced returns the time that portald spent in all syncs for a change that clients have seen. Each event of the file
// system can cause a sync, and a sync is counted only when it has ended.
func (b *bed) synced(ctx context.Context, before time.Duration, count int) (time.Duration, error) {
	time.Sleep(300 * time.Millisecond)
	sum, n, err := b.duration(ctx, partialSync)
	if err == nil && n == count {
		err = fmt.Errorf("portald counted no sync in %s", partialSync)
	}
	return sum - before, err
}

// seen connects to the changing Service until the expected pod answers.
func (b *bed) seen(ctx context.Context, port int, pod string) error {
	at := netip.AddrPortFrom(netip.MustParseAddr(changingVIP), uint16(port)).String()
	return b.net.Client(0).Do(func() error {
		var who string
		var err error
		for end := time.Now().Add(readyWithin); time.Now().Before(end); time.Sleep(askAgain) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if who, err = askName(at); err == nil && who == pod {
				return nil
			}
		}
		return fmt.Errorf("no answer of pod %s at %s: %q, %w", pod, at, who, err)
	})
}

func askName(at string) (string, error) {
	c, err := net.DialTimeout("tcp", at, lostAfter)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	name := make([]byte, 1)
	_, err = c.Read(name)
	return string(name), err
}

// nameServers answer in each pod with its number.
func (b *bed) nameServers() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for i := range pods {
		l, err := b.net.Pod(i).Listen("tcp", fmt.Sprint(":", changingPort))
		if err != nil {
			stop()
			return nil, err
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			answer(l, fmt.Sprint(i))
		}()
		stops = append(stops, func() { l.Close(); <-done })
	}
	return stop, nil
}

func answer(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte(name)) // the client reports what it received
		c.Close()
	}
}

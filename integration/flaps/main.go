//go:build linux

// Flaps lets real clients use endpoints that flap, by portald and by kube-proxy on the same schedule, and counts what
// fails. The network is one of namespaces: a client pod, a node, endpoint pods; the API server, the servers and the
// clients are real: redis-benchmark, pgbench, curl and gRPC's own client. A seed draws which endpoint fails when, how,
// and for how long; at each moment one endpoint lives. EndpointSlices do not change, or follow late: this is about the
// time between a failure and the readiness probe that finds it. Flaps needs root, or user namespaces and then leaves
// pgbench out; it leaves nothing behind on the host.
//
//	go run ./integration/flaps -portald bin/portald
//	go run ./integration/flaps -portald bin/portald -seed 7 -seconds 120 -clients curl,grpc -proxies portald
//	go run ./integration/flaps -schedule -seed 7         prints the schedule alone
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/portald/portald/integration/topology"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	run, ok := part()
	if !ok {
		topology.Enter()
		run = flaps
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "flaps:", err)
		os.Exit(1)
	}
}

// part returns what this program runs as where it starts itself: one client, or a server in a pod.
func part() (func(context.Context) error, bool) {
	if len(os.Args) > 2 {
		switch args := os.Args[2:]; os.Args[1] {
		case "client":
			return func(ctx context.Context) error { return drive(ctx, args) }, true
		case "serve":
			return func(ctx context.Context) error { return serve(ctx, args) }, true
		}
	}
	return nil, false
}

// settings are the parsed flags.
type settings struct {
	seed      uint64
	span      time.Duration
	endpoints int
	faults    []fault
	readiness time.Duration // 0: EndpointSlices do not follow
	load      load
	clients   []client
	proxies   []proxy
	portald   string
	kubeproxy string
	logs      string // folder in which logs stay; empty: none
	out       string // path of the report as JSON; empty: none
	print     bool   // the schedule alone
}

func parse() (settings, error) {
	var s settings
	flag.Uint64Var(&s.seed, "seed", 1, "`number` that the schedule is drawn from")
	seconds := flag.Float64("seconds", 30, "`seconds` for each proxy; its clients run at the same time")
	flag.IntVar(&s.endpoints, "endpoints", 5, "`number` of endpoints of each Service")
	faults := flag.String("faults", "", fmt.Sprintf("`faults` of endpoints, with commas, of %v (default all but %s)",
		allFaults, frozen))
	flag.DurationVar(&s.readiness, "readiness", 0,
		"`time` after which EndpointSlices follow a failure, as a readiness probe would; 0: they do not change")
	clients := flag.String("clients", "", "`clients`, with commas (default all: "+names(allClients())+")")
	proxies := flag.String("proxies", "", "`proxies`, with commas (default all: "+names(allProxies(""))+")")
	annotations := flag.String("annotations", "",
		"`KEY=VALUE,…` for the Services of the proxy "+annotated+"; a key without a slash is portald.io's")
	flag.Float64Var(&s.load.rate, "rate", 10, "`number` of operations of each client per second")
	flag.DurationVar(&s.load.timeout, "timeout", 5*time.Second, "`time` that an operation may take")
	flag.StringVar(&s.portald, "portald", "bin/portald", "`path` of the portald program")
	flag.StringVar(&s.kubeproxy, "kube-proxy", "", "`path` of kube-proxy (default: that in the binary of $KUBETEST)")
	flag.StringVar(&s.logs, "logs", "", "`folder` for logs of the proxies and connection records; default: none is kept")
	flag.StringVar(&s.out, "out", "", "`path` for all figures as JSON")
	flag.BoolVar(&s.print, "schedule", false, "print the schedule and exit")
	flag.Parse()
	s.span = time.Duration(*seconds * float64(time.Second))
	var errs [5]error
	s.faults, errs[0] = parseFaults(*faults)
	s.clients, errs[1] = choose(allClients(), *clients)
	s.proxies, errs[2] = choose(allProxies(*annotations), *proxies)
	s.portald, errs[3] = filepath.Abs(s.portald)
	if s.endpoints < 2 || s.endpoints > 20 {
		errs[4] = fmt.Errorf("-endpoints %d: between 2 and 20", s.endpoints)
	}
	return s, errors.Join(errs[:]...)
}

// named is anything that flags select by its title.
type named interface{ title() string }

func names[T named](all []T) string {
	var names []string
	for _, one := range all {
		names = append(names, one.title())
	}
	return strings.Join(names, ",")
}

// choose returns those with these names, in that order; all if there is no name.
func choose[T named](all []T, wanted string) ([]T, error) {
	if wanted == "" {
		return all, nil
	}
	var chosen []T
next:
	for name := range strings.SplitSeq(wanted, ",") {
		for _, one := range all {
			if one.title() == name {
				chosen = append(chosen, one)
				continue next
			}
		}
		return nil, fmt.Errorf("no %q: know %s", name, names(all))
	}
	return chosen, nil
}

func flaps(ctx context.Context) error {
	s, err := parse()
	if err != nil {
		return err
	}
	r := &report{Began: time.Now().UTC(), Seed: s.seed, Seconds: s.span.Seconds(), Endpoints: s.endpoints,
		Readiness: s.readiness.Seconds(), Schedule: schedule(s.seed, s.endpoints, s.faults, s.span)}
	if s.print {
		for _, e := range r.Schedule {
			fmt.Println(e)
		}
		return nil
	}
	if err := topology.Check(); err != nil {
		return err
	}
	l, err := newLab(ctx, &s, r)
	if err != nil {
		return err
	}
	err = errors.Join(l.runAll(ctx), l.close())
	fmt.Print(r.tables())
	if s.out != "" {
		err = errors.Join(err, r.write(s.out))
	}
	return err
}

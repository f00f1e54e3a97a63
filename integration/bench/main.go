//go:build linux

// Bench measures portald side by side with HAProxy, nginx and kernel DNAT: the same client, node and pod, the same
// REDIRECT rule for each proxy, and interleaved rounds in one run, so that other load of the machine affects all
// equally. portald's engines are measured beside each other, and beside portald.exe where there is Wine. Kernel modes
// are measured by the number of Services, against one restore of the same rules. Bench needs root or user namespaces,
// and leaves nothing behind on the host.
//
//	go run ./integration/bench -portald bin/portald          all of it, under half an hour
//	go run ./integration/bench -portald bin/portald -quick   less of everything, under five
//	go run ./integration/bench -engines                      portald's engines, into the report that is there
//	go run ./integration/bench -only crr,rr64 -rounds 3      some workloads; prints, and writes no files
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/portald/portald/integration/load"
	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/integration/wine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	run, ok := part()
	if !ok {
		topology.Enter()
		run = bench
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part returns what this program runs as where it starts itself: a load client or server, or a program under Wine.
func part() (func(context.Context) error, bool) {
	if len(os.Args) > 2 {
		switch args := os.Args[2:]; os.Args[1] {
		case "load":
			return func(ctx context.Context) error { return load.Command(ctx, args, os.Stdout) }, true
		case asWine:
			return func(context.Context) error { return startUnderWine(args) }, true
		}
	}
	return nil, false
}

func bench(ctx context.Context) error {
	s, err := parse()
	if err != nil {
		return err
	}
	if err := topology.Check(); err != nil {
		return err
	}
	if err := s.missing(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/run", "bench") // on the private tmpfs
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	calm, err := watchCalm()
	if err != nil {
		return err
	}
	began := time.Now()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	lab := &lab{dir: dir, portald: s.portald, self: self, beds: map[string]*bed{}}
	if err := s.build(ctx, lab); err != nil {
		return err
	}
	results, err := s.run(ctx, lab)
	if err := errors.Join(err, lab.close()); err != nil {
		return err
	}
	now, err := readCPUTimes()
	if err != nil {
		return err
	}
	r := newReport(ctx, s, results, began)
	r.Disturbed = calm.disturbance(now)
	fmt.Print(r.tables())
	if r.Disturbed != "" {
		fmt.Fprintf(os.Stderr, "The machine was not quiet: %s.\n", r.Disturbed)
	}
	if len(r.Errors) > 0 {
		err = fmt.Errorf("%d measurements failed", len(r.Errors))
	}
	if s.partial {
		return err
	}
	if r.Disturbed != "" && !s.disturbed {
		return errors.Join(err, fmt.Errorf("%s.md is not written: measure again on a quiet machine, or have it say so "+
			"(-disturbed)", s.out))
	}
	if s.engines {
		merged, failed := r.into(s.out)
		if failed != nil {
			return errors.Join(err, failed)
		}
		r = merged
	}
	return errors.Join(err, r.write(s.out))
}

// parse reads the flags; QUICK=1 in the environment is the flag -quick.
func parse() (settings, error) {
	s := settings{}
	quick := flag.Bool("quick", os.Getenv("QUICK") == "1", "fewer and shorter rounds: under five minutes")
	only := flag.String("only", "", "`workloads` to measure, with commas (default all: "+names(workloads())+")")
	among := flag.String("competitors", "",
		"`competitors` to measure, with commas (default all: "+names(competitors(""))+")")
	rounds := flag.Int("rounds", 0, "rounds (default 21, quick 3)")
	span := flag.Duration("for", 0, "duration of one measurement (default 1s)")
	flag.StringVar(&s.portald, "portald", "bin/portald", "`path` of the portald program")
	before := flag.String("before", "", "`path` of an earlier portald, measured alternately with the first")
	flag.BoolVar(&s.engines, "engines", false, "only portald's engines, into the report that is there")
	flag.BoolVar(&s.disturbed, "disturbed", false, "write the report though the machine was not quiet: it says so")
	flag.StringVar(&s.out, "out", "docs/benchmarks", "`path` of the report: path.md and path.json")
	flag.Parse()
	// HAProxy can hold the fewest connections, because it reserves descriptors for pipes
	mostConns := haproxyConns() - 100
	// portald limits one client to four fifths
	s.plan = plan{rounds: 21, span: time.Second, quick: *quick, idleConns: min(7500, mostConns)}
	if *quick {
		s.rounds, s.idleConns = 3, min(5000, mostConns)
	}
	if *rounds > 0 {
		s.rounds = *rounds
	}
	if *span > 0 {
		s.span = *span
	}
	s.partial = *only != "" || *among != "" || *before != ""
	var err, err2, err3, err4 error
	s.workloads, err = choose(workloads(), *only)
	if s.engines {
		s.workloads = slices.DeleteFunc(s.workloads, func(w workload) bool { return !w.engines })
	}
	if *quick && *only == "" && !s.engines {
		s.workloads = slices.DeleteFunc(s.workloads, func(w workload) bool { return w.long })
	}
	if *before != "" {
		*before, err2 = filepath.Abs(*before)
	}
	s.competitors, err3 = choose(competitors(*before), *among)
	if *among == "" && wine.Check() != nil {
		s.competitors = slices.DeleteFunc(s.competitors, func(c competitor) bool { return c.windows })
	}
	s.portald, err4 = filepath.Abs(s.portald)
	return s, errors.Join(err, err2, err3, err4)
}

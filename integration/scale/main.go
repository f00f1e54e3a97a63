//go:build linux

// Scale measures portald and kube-proxy beside an API server with many Services: how long each takes from its start
// until a Service is reached, and from a change of endpoints until a client sees it, alone and beside a hundred other
// changes a second; and the CPU time, memory and bytes that this takes. API server and kube-proxy are those of
// integration/kubetest, and each proxy has a node of its own, in network namespaces. All Services but the measured one
// are written straight to etcd, as the API server stores them, within seconds: it makes them ever more slowly. Proxies
// are measured one after the other, all with their default settings. Scale needs root, or user namespaces, and leaves
// nothing behind.
//
//	go run ./integration/scale -portald bin/portald                     1,000, 10,000 and 30,000 Services
//	go run ./integration/scale -portald bin/portald -sizes 1000         QUICK=1 does the same: no report is written
//	go run ./integration/scale -proxies portald-nftables -sizes 30000   one of them; no report either
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/portald/portald/integration/topology"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	topology.Enter()
	if err := scale(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// settings are the parsed flags.
type settings struct {
	sizes     []int
	endpoints int // of each Service
	proxies   []proxy
	start     time.Duration // within which a Service is to be reached
	rate      int           // of other changes a second
	quiet     int           // changes without others
	busy      time.Duration // how long with others
	idle      time.Duration // how long without any change, at the end
	portald   string
	logs      string
	out       string // path.md and path.json; empty: none
}

// mostSizes is how many nodes there are for each proxy.
const mostSizes = 3

func parse() (settings, error) {
	s := settings{endpoints: 10}
	quick := os.Getenv("QUICK") == "1"
	sizes := flag.String("sizes", "",
		"`numbers` of Services, with commas, ascending (default 1000,10000,30000; quick 1000)")
	among := flag.String("proxies", "", "`proxies`, with commas (default all: "+names(allProxies())+")")
	flag.DurationVar(&s.start, "start", 5*time.Minute, "`time` within which a Service is to be reached")
	flag.IntVar(&s.rate, "rate", 100, "`number` of other changes a second")
	flag.IntVar(&s.quiet, "changes", 50, "`number` of changes without others")
	flag.DurationVar(&s.busy, "for", 20*time.Second, "`time` to measure beside other changes")
	flag.DurationVar(&s.idle, "idle", 40*time.Second, "`time` to measure without any change")
	flag.StringVar(&s.portald, "portald", "bin/portald", "`path` of the portald program")
	flag.StringVar(&s.logs, "logs", "", "`folder` for logs of the proxies; default: none is kept")
	flag.StringVar(&s.out, "out", "",
		"`path` of the report: path.md and path.json (default docs/scale for all sizes and proxies)")
	flag.Parse()
	if *sizes == "" && *among == "" && !quick && s.out == "" {
		s.out = "docs/scale"
	}
	if *sizes == "" {
		*sizes = "1000,10000,30000"
		if quick {
			*sizes = "1000"
		}
	}
	var errs [3]error
	s.sizes, errs[0] = parseSizes(*sizes)
	s.proxies, errs[1] = choose(*among)
	s.portald, errs[2] = filepath.Abs(s.portald)
	return s, errors.Join(errs[:]...)
}

func parseSizes(text string) ([]int, error) {
	var sizes []int
	for one := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(one)
		if err != nil || n < 100 || n > 200_000 {
			return nil, fmt.Errorf("-sizes: %q: between 100 and 200000", one)
		}
		sizes = append(sizes, n)
	}
	if !slices.IsSorted(sizes) || len(sizes) > mostSizes {
		return nil, fmt.Errorf("-sizes %s: at most %d, ascending: Services are only added", text, mostSizes)
	}
	return sizes, nil
}

func scale(ctx context.Context) error {
	s, err := parse()
	if err != nil {
		return err
	}
	if err := topology.Check(); err != nil {
		return err
	}
	r := newReport(&s)
	l, err := newLab(ctx, &s)
	if err != nil {
		return err
	}
	err = errors.Join(l.runAll(ctx, r), l.close())
	r.Took = time.Since(r.began).Round(time.Second).String()
	fmt.Print(r.text())
	if s.out != "" && err == nil {
		err = r.write(s.out)
	}
	return err
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

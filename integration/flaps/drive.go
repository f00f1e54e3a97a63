//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"sync"
	"time"
)

// drive runs one client in this process and its children, which are in the network namespace of the client pod, and
// writes the result as JSON.
func drive(ctx context.Context, args []string) error {
	chosen, err := choose(allClients(), args[0])
	if err != nil {
		return err
	}
	f := flag.NewFlagSet("client", flag.ContinueOnError)
	var l load
	begin := f.Int64("begin", 0, "Unix `milliseconds`")
	span := f.Duration("for", 0, "`time`")
	f.Float64Var(&l.rate, "rate", 1, "`number`")
	f.DurationVar(&l.timeout, "timeout", 0, "`time`")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	for _, key := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
		os.Unsetenv(key) // gRPC would ask it
	}
	t := &tally{}
	if err := l.run(ctx, chosen[0], time.UnixMilli(*begin), *span, t); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(t.result())
}

// channels is how many times a client connects: gRPC holds a connection.
const channels = 10

// run counts operations that begin within the span; the last ones end later. An operation begins when its time has
// come, also while others wait: those that are slow do not keep any from being counted.
func (l load) run(ctx context.Context, c client, begin time.Time, span time.Duration, t *tally) error {
	var do [channels]operation
	for i := range do {
		var err error
		if do[i], err = c.connect(c.service); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range int(span.Seconds() * l.rate) {
		at := begin.Add(time.Duration(float64(i) / l.rate * float64(time.Second)))
		if err := wait(ctx, at); err != nil {
			return err
		}
		wg.Go(func() { l.one(ctx, do[i%channels], t) })
	}
	return nil
}

func (l load) one(ctx context.Context, do operation, t *tally) {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if k, said := do(within); k == "" {
		t.good(time.Since(began))
	} else {
		t.bad(began, k, said)
	}
}

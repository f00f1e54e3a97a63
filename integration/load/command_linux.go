package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Command runs the package as a program: the servers "serve", "sink", "source" and "answer", and the clients "rr",
// "churn", "bulk", "downloads", "datagrams" and "streams", with flags named as the fields of RR, Churn, Bulk,
// Downloads, Datagrams and Streams. A client writes its result to out as a line of JSON, and so does "answer". "answer"
// and "streams" read on standard input what to do.
func Command(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("load: want " + commands)
	}
	f := flag.NewFlagSet("load "+args[0], flag.ContinueOnError)
	switch args[0] {
	case "serve":
		return serverCommand(ctx, f, args[1:], Serve)
	case "sink":
		return serverCommand(ctx, f, args[1:], Sink)
	case "source":
		return serverCommand(ctx, f, args[1:], Source)
	case "rr":
		return rrCommand(ctx, f, args[1:], out)
	case "churn":
		return churnCommand(ctx, f, args[1:], out)
	case "bulk":
		return bulkCommand(ctx, f, args[1:], out)
	case "downloads":
		return downloadsCommand(ctx, f, args[1:], out)
	case "datagrams":
		return datagramsCommand(ctx, f, args[1:], out)
	case "answer":
		return answerCommand(ctx, f, args[1:], out)
	case "streams":
		return streamsCommand(ctx, f, args[1:], out)
	}
	return fmt.Errorf("load: %q: want %s", args[0], commands)
}

const commands = "serve, sink, source, answer, rr, churn, bulk, downloads, datagrams or streams"

func serverCommand(ctx context.Context, f *flag.FlagSet, args []string,
	run func(context.Context, netip.AddrPort) error) error {
	var at netip.AddrPort
	f.TextVar(&at, "at", netip.MustParseAddrPort("0.0.0.0:9000"), "`address:port`")
	if err := f.Parse(args); err != nil {
		return err
	}
	return run(ctx, at)
}

func answerCommand(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	var at netip.AddrPort
	f.TextVar(&at, "at", netip.MustParseAddrPort("0.0.0.0:9000"), "`address:port`")
	if err := f.Parse(args); err != nil {
		return err
	}
	ends, err := Answer(ctx, at, os.Stdin)
	return report(out, ends, err)
}

func streamsCommand(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	var c Streams
	var to string
	f.StringVar(&to, "to", "", "`address:port` of an answer, with commas")
	f.IntVar(&c.Each, "each", 1, "connections of each kind")
	f.DurationVar(&c.Every, "every", 50*time.Millisecond, "from one request of a connection to the next")
	f.IntVar(&c.Rate, "rate", 0, "new connections a second")
	f.IntVar(&c.Sessions, "sessions", 0, "UDP sessions")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if c.To, err = parseAll(strings.FieldsFunc(to, comma), netip.ParseAddrPort); err != nil {
		return err
	}
	r, err := c.Run(ctx, os.Stdin, out)
	return report(out, r, err)
}

func rrCommand(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	var c RR
	f.StringVar(&c.Proto, "proto", "tcp", "tcp or udp")
	f.TextVar(&c.To, "to", netip.AddrPort{}, "`address:port`")
	f.IntVar(&c.Conns, "conns", 1, "connections")
	f.DurationVar(&c.For, "for", time.Second, "how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	r, err := c.Run(ctx)
	return report(out, r, err)
}

func bulkCommand(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	var c Bulk
	f.TextVar(&c.To, "to", netip.AddrPort{}, "`address:port` of a sink")
	f.IntVar(&c.Streams, "streams", 1, "connections")
	f.BoolVar(&c.Apart, "apart", false, "a thread for each connection")
	f.DurationVar(&c.For, "for", time.Second, "how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	r, err := c.Run(ctx)
	return report(out, r, err)
}

func downloadsCommand(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	var c Downloads
	f.TextVar(&c.To, "to", netip.AddrPort{}, "`address:port` of a source")
	f.IntVar(&c.Streams, "streams", 1, "connections")
	f.BoolVar(&c.Up, "up", false, "send as much as will go at the same time")
	f.DurationVar(&c.For, "for", time.Second, "how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	r, err := c.Run(ctx)
	return report(out, r, err)
}

func datagramsCommand(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	var c Datagrams
	f.TextVar(&c.To, "to", netip.AddrPort{}, "`address:port` of a sink")
	f.BoolVar(&c.GSO, "gso", false, "have the kernel segment what one call sends")
	f.IntVar(&c.Rate, "rate", 0, "datagrams a second; 0: as many as will go")
	f.DurationVar(&c.For, "for", time.Second, "how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	r, err := c.Run(ctx)
	return report(out, r, err)
}

func churnCommand(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	var c Churn
	var to, from string
	f.StringVar(&c.Proto, "proto", "tcp", "tcp or udp")
	f.StringVar(&to, "to", "", "`address:port`, or @FILE with one a line")
	f.StringVar(&from, "from", "", "source `addresses` of UDP flows, with commas")
	f.IntVar(&c.At, "at", 0, "flows had before")
	f.IntVar(&c.Conns, "conns", 1, "connections at once")
	f.DurationVar(&c.For, "for", time.Second, "how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if c.To, err = targets(to); err != nil {
		return err
	}
	if c.From, err = parseAll(strings.FieldsFunc(from, comma), netip.ParseAddr); err != nil {
		return err
	}
	r, err := c.Run(ctx)
	return report(out, r, err)
}

func comma(r rune) bool { return r == ',' }

func targets(s string) ([]netip.AddrPort, error) {
	if !strings.HasPrefix(s, "@") {
		return parseAll([]string{s}, netip.ParseAddrPort)
	}
	file, err := os.Open(s[1:])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []string
	for in := bufio.NewScanner(file); in.Scan(); {
		lines = append(lines, in.Text())
	}
	return parseAll(lines, netip.ParseAddrPort)
}

func parseAll[T any](words []string, parse func(string) (T, error)) ([]T, error) {
	var all []T
	for _, w := range words {
		v, err := parse(w)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func report(out io.Writer, result any, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

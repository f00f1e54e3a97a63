// Command rollout is the traffic of the script run beside it, and of ../migrate/run: a server of echoes, and a client
// that counts what goes wrong while portald's DaemonSet is rolled out, or takes kube-proxy's place. It depends on
// nothing, and can be copied into any Linux pod.
//
//	rollout serve PORT                     echoes at this TCP and UDP port
//	rollout load [OPTIONS] NAME=TARGET...  runs until its standard input ends, then prints what it has counted
//
// With -life a held connection ends by itself after this time, and another one follows; without, it is held to the end.
// With -resend a datagram without an answer is sent once more, and has failed if that has none either.
// A TARGET is tcp:ADDRESS:PORT or udp:ADDRESS:PORT of a server, or dns:ADDRESS:PORT of a DNS server.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rollout:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) > 1 && args[0] == "load":
		return loadAll(args[1:])
	}
	return fmt.Errorf("usage: rollout serve PORT | load [-life TIME] [-resend] NAME=TARGET [NAME=TARGET]")
}

// loadAll loads all targets until standard input ends.
func loadAll(args []string) error {
	options := flag.NewFlagSet("load", flag.ContinueOnError)
	life := options.Duration("life", 0, "how long a connection is held; 0: to the end")
	resend := options.Bool("resend", false, "send a datagram without an answer once more")
	if err := options.Parse(args); err != nil {
		return err
	}
	stop := make(chan struct{})
	var all []counted
	var running sync.WaitGroup
	for _, arg := range options.Args() {
		name, target, _ := strings.Cut(arg, "=")
		protocol, address, ok := strings.Cut(target, ":")
		if !ok {
			return fmt.Errorf("%s: want NAME=PROTOCOL:ADDRESS:PORT", arg)
		}
		for _, load := range loads(protocol, *life) {
			count := &count{resends: *resend}
			all = append(all, counted{name, load.title, count})
			for range load.times {
				running.Go(func() { load.run(address, count, stop) })
			}
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends, however it does
	close(stop)
	running.Wait()
	bad := 0
	for _, c := range all {
		fmt.Println(c)
		bad += c.failed()
	}
	if bad > 0 {
		return fmt.Errorf("%d failures", bad)
	}
	return nil
}

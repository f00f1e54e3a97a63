// Command rollout is the traffic of the script run beside it: a server of echoes, and a client that counts what goes
// wrong while the DaemonSet of portald is rolled out. It depends on nothing, and can be copied into any Linux pod.
//
//	rollout serve PORT             echoes at this TCP and UDP port
//	rollout load NAME=TARGET ...   runs until its standard input ends, then prints what it has counted
//
// A TARGET is tcp:ADDRESS:PORT or udp:ADDRESS:PORT of a server, or dns:ADDRESS:PORT of a DNS server.
package main

import (
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
	return fmt.Errorf("usage: rollout serve PORT | load NAME=TARGET [NAME=TARGET]")
}

// loadAll loads all targets until standard input ends.
func loadAll(args []string) error {
	stop := make(chan struct{})
	var all []counted
	var running sync.WaitGroup
	for _, arg := range args {
		name, target, _ := strings.Cut(arg, "=")
		protocol, address, ok := strings.Cut(target, ":")
		if !ok {
			return fmt.Errorf("%s: want NAME=PROTOCOL:ADDRESS:PORT", arg)
		}
		for _, load := range loads(protocol) {
			count := &count{}
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

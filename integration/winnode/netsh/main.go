// netsh takes the place of Windows' own in tests: it has a simulator elsewhere execute its arguments, and prints what
// that one says. With the argument "hold" it stays until the end of its standard input, and says when the system is up:
// Wine ends services with the last program that is none.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/portald/portald/portal/netshtest"
)

func main() {
	if slices.Equal(os.Args[1:], []string{"hold"}) {
		stayUp()
		return
	}
	result, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "netsh:", err)
		os.Exit(125)
	}
	os.Stdout.Write(result.Output)
	os.Exit(result.Code)
}

// stayUp prints when the system lists its interfaces, which takes one of its services.
func stayUp() {
	for {
		if _, err := net.InterfaceAddrs(); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Println("up")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// run asks the simulator whose address is in a file beside the program: services have an environment of their own.
func run(args []string) (netshtest.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return netshtest.Result{}, err
	}
	address, err := os.ReadFile(filepath.Join(filepath.Dir(self), "netsh.simulator"))
	if err != nil {
		return netshtest.Result{}, err
	}
	return netshtest.Client{Address: string(address)}.Exec(context.Background(), args...)
}

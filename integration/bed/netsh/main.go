// netsh takes the place of Windows' own in tests: it has a simulator elsewhere execute its arguments, and prints what
// that one says.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/portald/portald/portal/netsh/netshsim"
)

// Simulator is the environment variable with the address of the simulator.
const Simulator = "NETSH_SIMULATOR"

func main() {
	result, err := netshsim.Client{Address: os.Getenv(Simulator)}.Exec(context.Background(), os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "netsh:", err)
		os.Exit(125)
	}
	os.Stdout.Write(result.Output)
	os.Exit(result.Code)
}

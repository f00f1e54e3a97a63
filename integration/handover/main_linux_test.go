package handover

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/load"
)

// The program is also the clients and servers of its tests, as processes of their own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == loadCommand {
		if err := load.Command(context.Background(), os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	bed.Main(m)
}

const loadCommand = "load"

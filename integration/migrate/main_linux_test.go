package migrate

import (
	"flag"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// full asks for every pair of modes.
var full = flag.Bool("full", false, "each mode of kube-proxy with each of portald, and not only one of a kind")

func TestMain(m *testing.M) { bed.Main(m) }

package splicetest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// atOnce is how many scenarios run at a time: they mostly wait.
const atOnce = 12

// Main is a TestMain for the suite. Scenarios do not wait for a processor to be free, and neither do engines, which may
// keep one to themselves for some time.
func Main(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(2 * atOnce)
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

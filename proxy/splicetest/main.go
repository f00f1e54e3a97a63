package splicetest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// atOnce returns how many scenarios run at a time: they mostly wait. Under Wine they wait for its one server too.
func atOnce() int {
	if runtime.GOOS == "windows" {
		return 3
	}
	return 12
}

// Main is a TestMain for the suite. Scenarios do not wait for a processor to be free, and neither do engines, which may
// keep one to themselves for some time.
func Main(m *testing.M) {
	if os.Getenv(peersVariable) != "" {
		if err := bePeers(); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	aside()
	go noteStalls()
	runtime.GOMAXPROCS(2 * atOnce())
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce())); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// noteStalls tells of the times in which nothing ran here: a scenario that has a limit of time may have failed for one.
func noteStalls() {
	const often, long = 50 * time.Millisecond, time.Second
	for last := time.Now(); ; {
		time.Sleep(often)
		now := time.Now()
		if stood := now.Sub(last); stood > long {
			fmt.Fprintf(os.Stderr, "splicetest: until %s nothing ran for %s\n", now.Format(time.StampMilli), stood)
		}
		last = now
	}
}

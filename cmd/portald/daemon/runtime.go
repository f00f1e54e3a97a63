package daemon

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// checkRuntime refuses GODEBUG=asyncpreemptoff=1: event loops wait in the kernel without the Go scheduler's knowledge,
// and one busy connection would stop everything if the scheduler could not preempt them. As the runtime does, it takes
// the last of several values, and skips what is no number.
func checkRuntime() error {
	off := 0
	for one := range strings.SplitSeq(os.Getenv("GODEBUG"), ",") {
		if value, ok := strings.CutPrefix(one, "asyncpreemptoff="); ok {
			if n, err := strconv.ParseInt(value, 10, 32); err == nil {
				off = int(n)
			}
		}
	}
	if off != 0 {
		return fmt.Errorf("environment GODEBUG=%s: with asyncpreemptoff portald's event loops cannot be preempted, "+
			"and hang; unset it", os.Getenv("GODEBUG"))
	}
	return nil
}

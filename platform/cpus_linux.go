package platform

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// CPUs returns the number of CPUs that are online on the host, of which this process may be able to use only some.
func CPUs() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return runtime.NumCPU()
	}
	return max(countCPUs(strings.TrimSpace(string(text))), runtime.NumCPU())
}

// countCPUs counts the CPUs of a list such as 0-3,8; 0 if it cannot be parsed.
func countCPUs(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err1 := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || b < a {
			return 0
		}
		n += b - a + 1
	}
	return n
}

package platform

import (
	"fmt"
	"os"
	"strconv"
)

// SetOOMScore tells the kernel how gladly to kill this process when memory runs out: -1000 (never) to 1000 (first).
// Commands started later inherit it. Less than before takes CAP_SYS_RESOURCE.
func SetOOMScore(adjust int) error {
	if err := os.WriteFile("/proc/self/oom_score_adj", strconv.AppendInt(nil, int64(adjust), 10), 0); err != nil {
		return fmt.Errorf("set the out-of-memory score to %d: %w", adjust, err)
	}
	return nil
}

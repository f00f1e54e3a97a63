package platform

import (
	"fmt"
	"os"
	"strconv"
)

// SetOOMScore sets oom_score_adj of this process, from -1000 (never killed when memory runs out) to 1000 (first).
// Commands started later inherit it. To lower it takes CAP_SYS_RESOURCE.
func SetOOMScore(adjust int) error {
	if err := os.WriteFile("/proc/self/oom_score_adj", strconv.AppendInt(nil, int64(adjust), 10), 0); err != nil {
		return fmt.Errorf("set the out-of-memory score to %d: %w", adjust, err)
	}
	return nil
}

package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
)

// reachText says how far back the records of a node reach, and why not further, a line each; nothing if those in memory
// do as far as was asked.
func reachText(r *adminsocket.Reach) string {
	var b strings.Builder
	node := r.Node
	if node == "" {
		node = "this node"
	}
	say := func(format string, args ...any) {
		b.WriteString(printable.Text(node+": "+fmt.Sprintf(format, args...)) + "\n")
	}
	where, why := "in the daemon's memory", ""
	if r.Files > 0 {
		where = "from " + counted(r.Files, "file")
	}
	if r.Why != "" {
		why = "; no earlier ones: " + r.Why
	}
	if r.Files > 0 || why != "" {
		say("records since %s, %s%s", r.Since.UTC().Truncate(time.Second).Format(time.RFC3339), where, why)
	}
	if r.Damaged > 0 {
		say("%s left out that are damaged, or no records", counted(r.Damaged, "line"))
	}
	for _, skipped := range r.Skipped {
		say("left out: %s", skipped)
	}
	return b.String()
}

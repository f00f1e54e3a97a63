package explain

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/portal/service"
)

// roughly is a duration for people: in whole seconds, or less of what is shorter.
func roughly(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	text := strings.Replace(d.Round(time.Second).String(), "m0s", "m", 1)
	return strings.Replace(text, "h0m", "h", 1)
}

func portText(f service.Frontend) string { return strconv.Itoa(int(f.Addr.Port())) }

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// have is the verb for so many.
func have(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// modeOf returns the mode of a service port, and what it comes from.
func modeOf(p *service.Port, node *Node) (mode service.Mode, from string) {
	mode, from = p.Mode.Or(node.Mode).Or(service.ModeUserspace), "the annotation portald.io/mode of the Service"
	switch {
	case p.DebugUntil != nil:
		from = "the annotation portald.io/debug-until of the Service (until " + p.DebugUntil.Format(time.RFC3339) +
			", then it has its own mode again)"
	case p.Mode == service.ModeDefault:
		from = "the default of this node"
	}
	return mode, from
}

// short rounds a duration to what people compare.
func short(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

func behind(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// oneWay is added to what is said of clients without an answer where no endpoint has sent anything.
const oneWay = ": fine only if what they send has no answer"

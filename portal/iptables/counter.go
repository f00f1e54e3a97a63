package iptables

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
)

// invalidForm is the rule that drops invalid packets, as iptables -v -S prints it, with the packets that it has met.
var invalidForm = regexp.MustCompile(`(?m)^-A \S+ -m conntrack --ctstate INVALID -c (\d+) \d+ -j DROP$`)

// InvalidDropped is how many packets the rules have dropped since they were written last, of all families, because
// conntrack found them invalid; false where no rule does. It executes a command for each family. Any goroutine may call
// it.
func (w *Writer) InvalidDropped(ctx context.Context) (packets uint64, drops bool, err error) {
	for _, h := range w.hosts {
		if !h.forwards.Load() {
			continue
		}
		args := []string{"--wait", "1", "-t", filterTable, "-v", "-S", h.filter.forward}
		text, err := h.commands.run(ctx, h.commands.command, args, nil)
		if err != nil {
			return 0, false, fmt.Errorf("read chain %s of %s: %w", h.filter.forward, h.ip, err)
		}
		match := invalidForm.FindSubmatch(text)
		if match == nil {
			continue
		}
		n, err := strconv.ParseUint(string(match[1]), 10, 64)
		if err != nil {
			return 0, false, fmt.Errorf("read chain %s of %s: %w", h.filter.forward, h.ip, err)
		}
		packets, drops = packets+n, true
	}
	return packets, drops, nil
}

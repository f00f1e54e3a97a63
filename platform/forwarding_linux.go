package platform

import (
	"fmt"
	"os"
	"strings"

	"github.com/portald/portald/proxy/service"
)

// Forwarding tells whether this host passes packets of the family on between its interfaces, as it must where the
// kernel leads clients of other hosts, or pods, to endpoints. It reads the setting for the host as a whole; single
// interfaces may have their own. A kernel without the family is an error that wraps fs.ErrNotExist.
func Forwarding(family service.IPFamily) (on bool, err error) {
	file := "/proc/sys/net/ipv4/ip_forward"
	if family == service.IPv6 {
		file = "/proc/sys/net/ipv6/conf/all/forwarding"
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("ask whether the host forwards %s: %w", family, err)
	}
	return strings.TrimSpace(string(text)) != "0", nil
}

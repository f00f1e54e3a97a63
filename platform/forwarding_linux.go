package platform

import (
	"fmt"
	"os"
	"strings"

	"github.com/portald/portald/platform/inet"
)

// Forwarding tells whether this host forwards packets of the family between its interfaces, which the kernel modes
// need. It reads the setting of the host; interfaces may have their own. A kernel without the family is an error that
// wraps fs.ErrNotExist.
func Forwarding(family inet.Family) (on bool, err error) {
	file := "/proc/sys/net/ipv4/ip_forward"
	if family == inet.IPv6 {
		file = "/proc/sys/net/ipv6/conf/all/forwarding"
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("read whether the host forwards %s: %w", family, err)
	}
	return strings.TrimSpace(string(text)) != "0", nil
}

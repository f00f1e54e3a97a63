package platform

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// LocalPorts returns the number of ports that the kernel chooses from for sockets without a bound port, for each
// protocol (net.ipv4.ip_local_port_range, which holds for IPv6 too).
func LocalPorts() (int, error) { return localPorts("/proc/sys/net/ipv4/ip_local_port_range") }

func localPorts(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the range of local ports: %w", err)
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || last < first {
		return 0, fmt.Errorf("read the range of local ports: %s has %q instead of two numbers", path, text)
	}
	return last - first + 1, nil
}

// PipePages returns how many pages the pipes of one user may have in total before new pipes are small
// (fs.pipe-user-pages-soft); 0 means no limit.
func PipePages() (int, error) { return pipePages("/proc/sys/fs/pipe-user-pages-soft") }

func pipePages(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the limit of pipes: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read the limit of pipes: %w", err)
	}
	return n, nil
}

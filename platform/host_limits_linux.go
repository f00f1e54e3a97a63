package platform

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// LocalPorts is how many ports the kernel may choose from for sockets that ask for none, of each protocol
// (net.ipv4.ip_local_port_range, which is that of IPv6 too).
func LocalPorts() (int, error) { return localPorts("/proc/sys/net/ipv4/ip_local_port_range") }

func localPorts(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the range of local ports: %w", err)
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || last < first {
		return 0, fmt.Errorf("read the range of local ports: %s says %q, and not two numbers", path, text)
	}
	return last - first + 1, nil
}

// PipePages is how many pages the pipes of a user's processes may have together before new ones are made small
// (fs.pipe-user-pages-soft); 0 = any number.
func PipePages() (int, error) { return pipePages("/proc/sys/fs/pipe-user-pages-soft") }

func pipePages(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the bound of pipes: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read the bound of pipes: %w", err)
	}
	return n, nil
}

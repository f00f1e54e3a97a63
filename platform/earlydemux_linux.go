package platform

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// SpareEarlyDemux turns off the kernel's early look for the socket of a TCP segment where it is mistaken, and says what
// was written; "" means nothing. Where a client has two connections from one port to one listener, by way of two addresses
// that are redirected there, netfilter gives the second another port; but kernels before 6.7 have found the socket of
// the first by then, and the second is never answered. Without it, each segment for this host costs a lookup of its route.
func SpareEarlyDemux() (changed string, err error) {
	return spareEarlyDemux("", kernelVersion())
}

// version is a kernel's: major and minor.
type version [2]int

func (v version) before(o version) bool { return v[0] < o[0] || v[0] == o[0] && v[1] < o[1] }

// looksAgain is the first kernel with "netfilter: nf_nat: undo erroneous tcp edemux lookup after port clash".
var looksAgain = version{6, 7}

func spareEarlyDemux(root string, kernel version) (changed string, err error) {
	if !kernel.before(looksAgain) {
		return "", nil
	}
	s := setting{file: "/proc/sys/net/ipv4/tcp_early_demux"}
	was, err := s.apply(root)
	switch {
	case errors.Is(err, fs.ErrNotExist): // kernels before 4.12
		return "", nil
	case err != nil || was < 0:
		return "", err
	}
	return fmt.Sprintf("%s: %d, was %d", s.file, s.value, was), nil
}

// kernelVersion is the running kernel's, as uname has it; zero if that is no version.
func kernelVersion() (v version) {
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &v[0], &v[1])
	}
	return v
}

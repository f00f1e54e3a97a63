package platform

import (
	"errors"
	"fmt"
	"io/fs"
)

// DisableTCPEarlyDemux sets net.ipv4.tcp_early_demux to 0 on kernels where early demux conflicts with NAT, and returns
// what was changed, "" for nothing. If a client has two connections from one port to two addresses that are redirected
// to one listener, netfilter gives the second another source port; kernels before 6.7 have found the socket of the
// first by then, and never answer the second. Without early demux each segment for this host costs a route lookup.
func DisableTCPEarlyDemux() (changed string, err error) {
	return disableTCPEarlyDemux("", Kernel())
}

// fixedEarlyDemux is the first kernel with "netfilter: nf_nat: undo erroneous tcp edemux lookup after port clash".
var fixedEarlyDemux = KernelVersion{6, 7}

func disableTCPEarlyDemux(root string, kernel KernelVersion) (changed string, err error) {
	if !kernel.Before(fixedEarlyDemux) {
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

package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
)

// ranges are the newest ranges of ClusterIPs. It is safe for concurrent use.
type ranges struct {
	now atomic.Pointer[[]netip.Prefix]
}

func newRanges(all []netip.Prefix) *ranges {
	r := &ranges{}
	r.now.Store(&all)
	return r
}

func (r *ranges) all() []netip.Prefix { return *r.now.Load() }

// SetServiceCIDRs changes Options.ServiceCIDRs from the next Replace on; false: they were the same.
func (w *Writer) SetServiceCIDRs(all []netip.Prefix) (changed bool, err error) {
	if err := checkRanges(all); err != nil {
		return false, err
	}
	return !slices.Equal(*w.ranges.now.Swap(&all), all), nil
}

func checkRanges(all []netip.Prefix) error {
	for _, cidr := range all {
		if !cidr.IsValid() || cidr.Addr().Is4In6() || cidr.Bits() == 0 {
			return fmt.Errorf("service CIDR %s: want an IPv4 or IPv6 prefix", cidr)
		}
	}
	return nil
}

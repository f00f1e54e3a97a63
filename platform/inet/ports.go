package inet

import (
	"fmt"
	"strconv"
	"strings"
)

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last uint16 }

// ParsePortRanges reads a list as the kernel prints one, such as "8080,9000-9010".
func ParsePortRanges(list string) (ranges []PortRange, err error) {
	if list = strings.TrimSpace(list); list == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || b < a {
			return nil, fmt.Errorf("%q is neither a port nor a range of ports", part)
		}
		ranges = append(ranges, PortRange{uint16(a), uint16(b)})
	}
	return ranges, nil
}

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// Size returns how many ports the range has, none if it ends before it begins.
func (r PortRange) Size() int { return max(0, int(r.Last)-int(r.First)+1) }

// Contains tells whether the port is in the range.
func (r PortRange) Contains(port uint16) bool { return r.First <= port && port <= r.Last }

// Overlaps tells whether the ranges have a port in common.
func (r PortRange) Overlaps(o PortRange) bool { return r.First <= o.Last && o.First <= r.Last }

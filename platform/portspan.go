package platform

import (
	"fmt"
	"strconv"
	"strings"
)

// PortSpan is a range of local ports, both ends included.
type PortSpan struct{ First, Last uint16 }

// parseSpans parses a list such as 8080,9000-9010.
func parseSpans(list string) (spans []PortSpan, err error) {
	if list == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isSpan := strings.Cut(part, "-")
		if !isSpan {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || b < a {
			return nil, fmt.Errorf("read reserved ports: %q is neither a port nor a range", part)
		}
		spans = append(spans, PortSpan{uint16(a), uint16(b)})
	}
	return spans, nil
}

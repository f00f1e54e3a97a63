package platform

import "fmt"

// KernelVersion is the major and minor version of a kernel of Linux, zero if it is not known.
type KernelVersion [2]int

// Before tells whether a version is older than another.
func (v KernelVersion) Before(o KernelVersion) bool {
	return v[0] < o[0] || v[0] == o[0] && v[1] < o[1]
}

func (v KernelVersion) String() string { return fmt.Sprintf("%d.%d", v[0], v[1]) }

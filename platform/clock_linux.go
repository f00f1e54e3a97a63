package platform

import (
	"time"

	"golang.org/x/sys/unix"
)

// ClockStart is when the host's monotonic clock was 0: the same for all processes, but for the microsecond that it
// takes to read two clocks.
func ClockStart() time.Time {
	now := time.Now()
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &since); err != nil {
		return now
	}
	return now.Add(-time.Duration(since.Nano()))
}

package service

import "time"

// DebugUntil is the name of the setting that debugs a Service: until a moment it is in userspace mode, whatever its
// mode is otherwise.
const DebugUntil = "debug-until"

// MostDebug is how far ahead that moment may be: a bound on mistakes, and on debugging that nobody ends.
const MostDebug = 24 * time.Hour

func equalMoments(a, b *time.Time) bool {
	return a == b || a != nil && b != nil && a.Equal(*b)
}

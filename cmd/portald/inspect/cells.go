package inspect

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/portald/portald/platform/printable"
)

// recordTime is how times of records are printed, in UTC as in the log.
const recordTime = "2006-01-02 15:04:05.000"

// none stands for what there is not.
const none = "-"

// appendText writes text that anybody may have written, so that it does nothing to a terminal.
func appendText(b []byte, s string) []byte {
	if s == "" {
		return append(b, none...)
	}
	return printable.Append(b, s)
}

func appendAddress(b []byte, a netip.AddrPort) []byte {
	if !a.IsValid() {
		return append(b, none...)
	}
	return a.AppendTo(b)
}

// appendAge writes the time since a moment as kubectl does: 5m3s, 3h, 2d.
func appendAge(b []byte, now, since time.Time) []byte {
	if since.IsZero() {
		return append(b, none...)
	}
	return appendDuration(b, now.Sub(since))
}

// appendDuration is duration.HumanDuration, faster for what most connections last.
func appendDuration(b []byte, d time.Duration) []byte {
	seconds := int64(d / time.Second)
	switch {
	case d >= 0 && d < 2*time.Minute:
		return append(strconv.AppendInt(b, seconds, 10), 's')
	case d < 10*time.Minute && d > 0 && seconds%60 != 0:
		b = append(strconv.AppendInt(b, seconds/60, 10), 'm')
		return append(strconv.AppendInt(b, seconds%60, 10), 's')
	case d < 3*time.Hour && d > 0:
		return append(strconv.AppendInt(b, seconds/60, 10), 'm')
	}
	return append(b, duration.HumanDuration(d)...)
}

// appendSize writes bytes with two significant digits or more, in powers of 1000: 999B, 1.2kB, 45kB.
func appendSize[T int64 | uint64](b []byte, n T) []byte {
	if n < 1000 {
		return append(strconv.AppendInt(b, int64(n), 10), 'B')
	}
	v, unit := float64(n), -1
	for v >= 999.5 && unit < len("kMGTPE")-1 {
		v /= 1000
		unit++
	}
	return append(appendShort(b, v), "kMGTPE"[unit], 'B')
}

// appendMillis writes milliseconds: 0.04ms, 0.4ms, 12ms, 1.2s.
func appendMillis(b []byte, ms float64) []byte {
	switch {
	case ms < 0.095:
		return append(strconv.AppendFloat(b, ms, 'f', 2, 64), "ms"...)
	case ms < 999.5:
		return append(appendShort(b, ms), "ms"...)
	}
	return append(appendShort(b, ms/1000), 's')
}

// appendShort writes v with one decimal below 10 and with none above.
func appendShort(b []byte, v float64) []byte {
	if v < 9.95 {
		return strconv.AppendFloat(b, v, 'f', 1, 64)
	}
	return strconv.AppendFloat(b, v, 'f', 0, 64)
}

// appendIfAny writes milliseconds that may not be known.
func appendIfAny(b []byte, ms *float64) []byte {
	if ms == nil {
		return append(b, none...)
	}
	return appendMillis(b, *ms)
}

// appendCount writes a count that may not be known.
func appendCount[T int | uint64](b []byte, n *T) []byte {
	if n == nil {
		return append(b, none...)
	}
	return strconv.AppendUint(b, uint64(*n), 10)
}

// appendSizeIfAny writes bytes that may not be known.
func appendSizeIfAny(b []byte, n *uint64) []byte {
	if n == nil {
		return append(b, none...)
	}
	return appendSize(b, *n)
}

// orNegative is the sort key of what may not be known: behind all that is.
func orNegative[T int | uint64 | float64](v *T) float64 {
	if v == nil {
		return -1
	}
	return float64(*v)
}

// counted writes a number of things.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

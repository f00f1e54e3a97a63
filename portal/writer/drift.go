package writer

import (
	"errors"
	"fmt"
	"strings"
)

// maxDrift bounds what an audit names of one table: a flushed one lacks every rule.
const maxDrift = 5

// Drift collects the differences between what was written and what an audit found. The zero value has none.
type Drift struct {
	first []string
	more  int
}

// Add adds a difference.
func (d *Drift) Add(format string, args ...any) {
	if len(d.first) == maxDrift {
		d.more++
		return
	}
	d.first = append(d.first, fmt.Sprintf(format, args...))
}

// Err names the first few differences, and counts the rest; nil when there are none.
func (d *Drift) Err() error {
	if len(d.first) == 0 {
		return nil
	}
	text := strings.Join(d.first, "; ")
	if d.more > 0 {
		text += fmt.Sprintf(", and %d more", d.more)
	}
	return errors.New(text)
}

package portal

import (
	"errors"
	"fmt"
	"strings"
)

// maxFindings bounds what an audit names of one place: who flushed a table need not be told of every rule.
const maxFindings = 5

// Findings is what an Auditor found to be missing or strange.
type Findings struct {
	first []string
	more  int
}

// Add notes one more.
func (f *Findings) Add(format string, args ...any) {
	if len(f.first) == maxFindings {
		f.more++
		return
	}
	f.first = append(f.first, fmt.Sprintf(format, args...))
}

// Err names the first few, and counts the rest; nil when there are none.
func (f *Findings) Err() error {
	if len(f.first) == 0 {
		return nil
	}
	text := strings.Join(f.first, "; ")
	if f.more > 0 {
		text += fmt.Sprintf(", and %d more", f.more)
	}
	return errors.New(text)
}

package ipvs

import (
	"errors"
	"fmt"
)

// maxFailures bounds the errors of one transaction: without access to IPVS, every portal fails.
const maxFailures = 5

// failures keeps the first few errors, and counts the rest.
type failures struct {
	first []error
	more  int
}

func (f *failures) add(err error) {
	switch {
	case err == nil:
	case len(f.first) < maxFailures:
		f.first = append(f.first, err)
	default:
		f.more++
	}
}

func (f *failures) err() error {
	if f.more > 0 {
		return errors.Join(append(f.first, fmt.Errorf("and %d more", f.more))...)
	}
	return errors.Join(f.first...)
}

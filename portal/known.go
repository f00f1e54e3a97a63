package portal

import (
	"errors"
	"fmt"
)

// ErrUnknown is the error of an Update or Audit while it is not known what the host holds: before the first Replace, and
// after an error until a Replace succeeds.
var ErrUnknown = errors.New("what the host holds is not known: Replace comes first")

// Known is whether a Writer knows what the host holds. One goroutine uses it.
type Known struct{ known bool }

// Anew does what does not depend on what the host holds, and all of which is known if it succeeds.
func (k *Known) Anew(replace func() error) error {
	k.known = false
	err := replace()
	k.known = err == nil
	return err
}

// Onward does what does.
func (k *Known) Onward(verb string, update func() error) error {
	if !k.known {
		return fmt.Errorf("%s portals: %w", verb, ErrUnknown)
	}
	return k.Anew(update)
}

// Look only looks at what is known.
func (k *Known) Look(audit func() error) error {
	if !k.known {
		return fmt.Errorf("audit portals: %w", ErrUnknown)
	}
	return audit()
}

// Forget is for when nothing is known any more.
func (k *Known) Forget() { k.known = false }

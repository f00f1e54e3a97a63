package writer

import (
	"fmt"

	"github.com/portald/portald/portal"
)

// State is whether a Writer knows what the host holds. One goroutine uses it. The zero value knows nothing.
type State struct{ known bool }

// Full runs what does not depend on what the host holds, all of which is known if it succeeds.
func (s *State) Full(replace func() error) error {
	s.known = false
	err := replace()
	s.known = err == nil
	return err
}

// Incremental runs what changes what is known. After an error nothing is known.
func (s *State) Incremental(verb string, update func() error) error {
	if !s.known {
		return fmt.Errorf("%s portals: %w", verb, portal.ErrUnknown)
	}
	return s.Full(update)
}

// Verify runs what only reads, and compares it with what is known.
func (s *State) Verify(audit func() error) error {
	if !s.known {
		return fmt.Errorf("audit portals: %w", portal.ErrUnknown)
	}
	return audit()
}

// Forget is for when nothing is known any more.
func (s *State) Forget() { s.known = false }

package netshtest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// saidError is an error whose text is one of Said.
type saidError Said

func (e saidError) Error() string { return string(e) }

const (
	notUnderstood = saidError(NotUnderstood)
	missing       = saidError(Missing)
	incorrect     = saidError(Incorrect)
)

// do does what a command says, and returns what it prints; empty: nothing but a line end.
func (n *Netsh) do(c command) (string, error) {
	interfaces, err := n.Host.Interfaces()
	if err != nil {
		return "", err
	}
	if c.verb == "show" {
		return n.show(c, interfaces)
	}
	if n.Faults.NotElevated {
		return "", saidError(NotElevated)
	}
	i := slices.IndexFunc(interfaces, func(i Interface) bool {
		return strings.EqualFold(i.Name, c.device) || strconv.Itoa(i.Index) == c.device
	})
	switch {
	case i < 0:
		return "", saidError(NoInterface)
	case n.Faults.NoEffect:
		return "", nil
	case c.verb == "add":
		err = n.Host.Add(interfaces[i].Index, c.addr)
	default:
		err = n.Host.Remove(interfaces[i].Index, c.addr.Addr())
	}
	switch {
	case errors.Is(err, ErrExists):
		return "", saidError(Exists)
	case errors.Is(err, ErrNotFound):
		return "", saidError(NotFound)
	}
	return "", err
}

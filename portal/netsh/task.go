package netsh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/backoff"
)

// task is an operation on addresses, by calls of the system or by netsh.
type task struct {
	verb    string
	command func(device string, a netip.Addr) []string
	there   bool // whether the host has the address afterwards
}

var (
	adding   = task{"add", addCommand, true}
	removing = task{"remove", removeCommand, false}
)

// maxSingle is how many commands get a process each, whose exit code and message are about one address.
const maxSingle = 4

// perform does a task by calls of the system, has netsh do the rest, and returns why addresses are not as they should
// be afterwards. An error means that netsh did not run to its end, or that the host cannot be read.
func (w *Writer) perform(ctx context.Context, t task, addrs []netip.Addr) (map[netip.Addr]error, error) {
	if len(addrs) == 0 {
		return nil, nil
	}
	rest, why := w.callAll(ctx, t, addrs)
	single := len(rest) <= maxSingle
	said, err := w.runAll(ctx, t, rest, single)
	if err != nil {
		return nil, errors.Join(err, w.read()) // it may have done a part
	}
	if err := w.await(ctx, t, addrs, said); err != nil {
		return nil, err
	}
	failed, left := map[netip.Addr]error{}, w.left(t, addrs)
	for _, a := range left {
		failed[a] = t.failure(a, said, why[a])
	}
	if single || len(left) == 0 {
		return failed, nil
	}
	first, err := w.perform(ctx, t, left[:min(len(left), maxSingle)]) // to learn why
	for _, a := range left[:min(len(left), maxSingle)] {
		if failed[a] = first[a]; first[a] == nil {
			delete(failed, a)
		}
	}
	return failed, err
}

func (w *Writer) runAll(ctx context.Context, t task, addrs []netip.Addr, single bool) (map[netip.Addr]Result, error) {
	if single {
		return w.runEach(ctx, t, addrs)
	}
	return w.runScripts(ctx, t, addrs)
}

// callAll does a task by Change, and returns the addresses that are left for netsh, with the errors of calls.
func (w *Writer) callAll(
	ctx context.Context, t task, addrs []netip.Addr,
) (left []netip.Addr, why map[netip.Addr]error) {
	why = map[netip.Addr]error{}
	for i, a := range addrs {
		err := w.Change(w.host.device.LUID, a, t.there)
		if errors.Is(err, errors.ErrUnsupported) || ctx.Err() != nil {
			return append(left, addrs[i:]...), why
		}
		if err != nil {
			left, why[a] = append(left, a), err
		}
	}
	return left, why
}

// left returns the addresses with which the task is not done.
func (w *Writer) left(t task, addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool {
		_, there := w.host.addrs[a]
		return there == t.there
	})
}

// failure is why a task is not done with an address: what netsh said, if it was asked, and what the call said before.
func (t task) failure(a netip.Addr, said map[netip.Addr]Result, called error) error {
	result, asked := said[a]
	var err error
	switch {
	case !asked:
		return fmt.Errorf("%s address %s: Windows reports that it is done, but did not do it", t.verb, a)
	case result.Code == 0:
		err = fmt.Errorf("%s address %s: netsh ends with exit code 0, but did not do it", t.verb, a)
	default:
		err = fmt.Errorf("%s address %s: netsh ends with exit code %d: %s", t.verb, a, result.Code, result.message())
	}
	if called != nil {
		err = fmt.Errorf("%w; %w", err, called)
	}
	return err
}

// How long and how often the host is checked for the changes that netsh claims to have made.
const (
	awaitFor   = 500 * time.Millisecond
	awaitEvery = 25 * time.Millisecond
)

// await reads the host until a task is done, or for a short time. It does not wait for changes that netsh reports as
// failed.
func (w *Writer) await(ctx context.Context, t task, addrs []netip.Addr, said map[netip.Addr]Result) error {
	for until := time.Now().Add(awaitFor); ; {
		if err := w.read(); err != nil {
			return err
		}
		claimed := slices.ContainsFunc(w.left(t, addrs), func(a netip.Addr) bool { return said[a].Code == 0 })
		if !claimed || time.Now().After(until) {
			return nil
		}
		if err := backoff.Sleep(ctx, awaitEvery); err != nil {
			return err
		}
	}
}

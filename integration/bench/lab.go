//go:build linux

package main

import (
	"context"
	"errors"
)

// bed returns the competitor's bed, running and without state of the previous measurement.
func (l *lab) bed(ctx context.Context, c competitor) (*bed, error) {
	if b := l.beds[c.name]; b != nil {
		return b, b.fresh()
	}
	b, err := newBed(ctx, c, l)
	if err != nil {
		return nil, err
	}
	if err := b.up(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	l.beds[c.name] = b
	return b, nil
}

func (l *lab) close() error {
	var errs []error
	for _, b := range l.beds {
		errs = append(errs, b.close())
	}
	return errors.Join(errs...)
}

//go:build linux

package main

import (
	"context"
	"errors"
)

// lab keeps the beds from their first use until the end.
type lab struct {
	dir     string
	portald string // path of the program
	self    string // path of this one, which is the load client and server too
	beds    map[string]*bed
}

// bed is the competitor's, up and with nothing left of the measurement before.
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

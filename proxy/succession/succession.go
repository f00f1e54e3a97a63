// Package succession has one portald serve the node after another without a connection lost. Its parts:
//
//   - the State, which says who serves the node: a predecessor, this daemon, or a successor;
//   - the predecessor, which hands listeners and connections over to a daemon that takes its place, or stores them with
//     systemd for one that starts later, by the messages of package handover;
//   - the successor, which takes them, and gives the daemon's parts what is Inherited;
//   - the Keeper, which gives the process portald keep what is open, so that the next daemon goes on with it if this
//     one dies.
package succession

import (
	"context"
	"errors"
)

// ErrHandedOver is the cause of a daemon's end whose successor has taken its place.
var ErrHandedOver = errors.New("a successor serves this node")

// Succession is this daemon's part in it. Each method but StoreForNext is run by a goroutine of its own.
type Succession struct{ options *Options }

// New returns the Succession of a daemon whose parts are made.
func New(o Options) *Succession { return &Succession{&o} }

// YieldIfOusted waits until another daemon has taken the place of this one, which stood still. Then this one serves
// what is open until it has ended, or until it is told to end, and leaves everything else to the other.
func (s *Succession) YieldIfOusted(ctx context.Context) error { return s.options.yieldIfOusted(ctx) }

package succession

import (
	"context"
	"os"

	"github.com/portald/portald/proxy/succession/handover"
)

// TakeOver finds the daemon that serves this node, and takes its place; without one it begins, with what is left of
// one that has died.
func (s *Succession) TakeOver(ctx context.Context) error {
	o := s.options
	return successor{o, recovery{o, keeperFeed{o}}, notifier{o.Log}}.takeOver(ctx)
}

// HandOver waits for successors, once this daemon serves the node, and hands over to the first that takes its place.
func (s *Succession) HandOver(ctx context.Context) error { return s.predecessor().handOver(ctx) }

// StoreForNext leaves all with systemd if that is about to start the next daemon. False: this one has to drain.
func (s *Succession) StoreForNext(ctx context.Context) bool { return s.predecessor().storeForNext(ctx) }

// Keep gives a keeper what is open until ctx ends, once this daemon serves the node.
func (s *Succession) Keep(ctx context.Context) error { return keeperFeed{s.options}.keepAll(ctx) }

// Announce tells systemd, and who has started this daemon, when it serves the node.
func (s *Succession) Announce(ctx context.Context) error {
	return notifier{s.options.Log}.announce(ctx, s.options)
}

func (s *Succession) predecessor() predecessor {
	return predecessor{s.options, notifier{s.options.Log}}
}

// ousted tells whether another daemon has taken the lock of the node from this one, which has this file.
func ousted(socket string, lock *os.File) bool { return handover.Ousted(socket, lock) }

// answers and lockHeld tell whether another daemon listens for successors, and has the lock of the node.
func answers(socket string) bool  { return handover.Answers(socket) }
func lockHeld(socket string) bool { return handover.Held(socket) }

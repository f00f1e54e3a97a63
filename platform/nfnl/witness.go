package nfnl

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"

	"github.com/portald/portald/platform/backoff"
)

// Witness is told by the kernel who makes which transactions, while it has joined. Each costs the kernel 8 KiB and 30
// µs for everything that it changes then, whoever makes it: it joins when there is a reason. Join and Leave are for any
// goroutine.
type Witness struct {
	netlink  *netlink.Conn
	concerns func(Message) bool
}

// notifications is the group of those who are told (NFNLGRP_NFTABLES).
const notifications = 7

// NewWitness opens a socket in the network namespace of the calling thread. Transactions count that have a message
// which concerns accepts: its Data is the header and the attributes of the object that was made or deleted.
func NewWitness(concerns func(Message) bool) (*Witness, error) {
	n, err := dial()
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	if err := n.SetReadBuffer(witnessBuffer); err != nil {
		return nil, errors.Join(fmt.Errorf("size the netlink socket: %w", err), n.Close())
	}
	return &Witness{netlink: n, concerns: concerns}, nil
}

// Join begins to listen.
func (w *Witness) Join() error { return w.netlink.JoinGroup(notifications) }

// Leave ends that.
func (w *Witness) Leave() error { return w.netlink.LeaveGroup(notifications) }

// Messages not read in time are lost, so that a storm of transactions costs one buffer a pause.
const (
	witnessBuffer = 1 << 20
	witnessBurst  = 128 // parts, of 4 KiB at most, that are read between two pauses
	witnessPause  = 100 * time.Millisecond
)

// Run calls seen for each transaction that concerns, with its process as the kernel names it, until ctx ends. Then the
// socket is closed.
func (w *Witness) Run(ctx context.Context, seen func(process string, pid int)) error {
	defer w.netlink.Close()
	end := context.AfterFunc(ctx, func() { _ = w.netlink.SetReadDeadline(time.Unix(1, 0)) })
	defer end()
	concerned := false // by the transaction that is being told of
	for parts := 1; ctx.Err() == nil; parts++ {
		if parts%witnessBurst == 0 {
			_ = backoff.Sleep(ctx, witnessPause)
		}
		told, err := w.netlink.Receive()
		switch {
		case errors.Is(err, syscall.ENOBUFS):
			concerned = false // the remaining messages belong to another transaction
			continue
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("receive notifications of nf_tables: %w", err)
		}
		for _, m := range told {
			if m.Header.Type != subsystem<<8|NFT_MSG_NEWGEN {
				concerned = concerned || w.concerns(m)
				continue
			}
			if concerned {
				seen(process(m))
			}
			concerned = false
		}
	}
	return nil
}

// process returns the process that made a transaction, by the message that ends it.
func process(m Message) (name string, pid int) {
	_ = Decode(body(m), func(d *Decoder) {
		switch d.Type() {
		case NFTA_GEN_PROC_PID:
			pid = int(d.Uint32())
		case NFTA_GEN_PROC_NAME:
			name = d.String()
		}
	})
	return name, pid
}

// InTable tells whether a message is about a table of a family, or something in it.
func InTable(m Message, family byte, table string) (is bool) {
	if len(m.Data) < headerSize || m.Data[0] != family {
		return false
	}
	_ = Decode(body(m), func(d *Decoder) {
		if d.Type() == NFTA_TABLE_NAME { // which is the first attribute of everything
			is = d.String() == table
		}
	})
	return is
}

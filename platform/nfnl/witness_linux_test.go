package nfnl

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/netnstest"
)

// A witness sees who makes the transactions that concern it, while it has joined, and no others.
func TestWitness(t *testing.T) {
	netnstest.Enter(t)
	c, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := NewWitness(func(m Message) bool { return InTable(m, NFPROTO_IPV4, "mine") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- w.Run(ctx, func(process string, pid int) {
			if pid <= 0 {
				t.Errorf("the process %d", pid)
			}
			seen <- process
		})
	}()
	commit := func(kind uint16, table string) {
		t.Helper()
		var a Attributes
		a.String(NFTA_TABLE_NAME, table)
		if err := c.Commit(t.Context(), []Step{{Request(kind, Create, NFPROTO_IPV4, a)}}); err != nil {
			t.Fatal(err)
		}
	}
	commit(NFT_MSG_NEWTABLE, "mine") // nobody listens
	if err := w.Join(); err != nil {
		t.Fatal(err)
	}
	commit(NFT_MSG_NEWTABLE, "others")
	commit(NFT_MSG_DELTABLE, "mine")
	commit(NFT_MSG_DELTABLE, "others")
	commit(NFT_MSG_NEWTABLE, "mine")
	for range 2 {
		select {
		case name := <-seen:
			if !strings.HasPrefix("nfnl.test", name) || name == "" {
				t.Errorf("seen was %q", name)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("nobody was seen")
		}
	}
	if err := w.Leave(); err != nil {
		t.Fatal(err)
	}
	commit(NFT_MSG_DELTABLE, "mine")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(seen) > 0 {
		t.Errorf("seen was %q too", <-seen)
	}
}

package nfnl

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/portald/portald/platform/netnstest"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// However many errors a transaction had, and whether or not an answer was read, the next request gets its own answer.
func TestInStepAfterErrors(t *testing.T) {
	netnstest.Enter(t)
	c, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var a Attributes
	a.String(NFTA_TABLE_NAME, "trial")
	create := Request(NFT_MSG_NEWTABLE, Create, NFPROTO_IPV4, a)
	remove := Request(NFT_MSG_DELTABLE, 0, NFPROTO_IPV4, a)
	list := Request(NFT_MSG_GETTABLE, 0, NFPROTO_IPV4, a)
	for range 3 {
		if err := c.Watch(); err != nil {
			t.Fatal(err)
		}
		if err := c.Commit(t.Context(), []Step{{create}}); err != nil {
			t.Fatal(err)
		}
		a := Attributes(nil)
		a.String(NFTA_CHAIN_TABLE, "trial")
		a.String(NFTA_CHAIN_NAME, "missing")
		missing := Request(NFT_MSG_DELCHAIN, 0, NFPROTO_IPV4, a)
		err := c.Commit(t.Context(), []Step{slices.Repeat(Step{missing}, 300)})
		if !errors.Is(err, syscall.ENOENT) {
			t.Errorf("300 errors at once: %v", err)
		}
		if _, same, err := c.Unchanged(); !same || err != nil {
			t.Errorf("after them: unchanged %t, %v", same, err)
		}
		if _, err := c.netlink.Send(Request(NFT_MSG_GETTABLE, Dump, NFPROTO_IPV4, nil)); err != nil { // and no read
			t.Fatal(err)
		}
		answers := 0
		if err := c.List(list, func([]byte) error { answers++; return nil }); err != nil || answers != 1 {
			t.Errorf("%d answers to the next request: %v", answers, err)
		}
		if err := c.Commit(t.Context(), []Step{{remove}}); err != nil {
			t.Error(err)
		}
	}
}

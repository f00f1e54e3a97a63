package rtnl

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestListingThatIsInterruptedIsMadeAgain(t *testing.T) {
	calls := 0
	all, err := Whole("numbers", func() ([]int, error) {
		if calls++; calls < 3 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if err != nil || !slices.Equal(all, []int{1, 2}) {
		t.Errorf("got %v, %v", all, err)
	}
}

func TestListingThatIsAlwaysInterruptedFails(t *testing.T) {
	calls := 0
	_, err := Whole("numbers", func() ([]int, error) { calls++; return []int{1}, netlink.ErrDumpInterrupted })
	named := err != nil && strings.HasPrefix(err.Error(), "list numbers: ")
	if calls != attempts || !errors.Is(err, netlink.ErrDumpInterrupted) || !named {
		t.Errorf("%v after %d attempts", err, calls)
	}
}

func TestOtherErrorsAreNotTriedAgain(t *testing.T) {
	calls := 0
	_, err := Whole("numbers", func() ([]int, error) { calls++; return nil, unix.EPERM })
	if calls != 1 || !errors.Is(err, unix.EPERM) {
		t.Errorf("%v after %d attempts", err, calls)
	}
}

func TestLoopbackIsListed(t *testing.T) {
	links, err := Links()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Name == "lo" })
	if at < 0 {
		t.Fatal("no lo")
	}
	if _, err := Addresses(links[at], netlink.FAMILY_ALL); err != nil {
		t.Error(err)
	}
	if _, err := Routes(netlink.FAMILY_V4); err != nil {
		t.Error(err)
	}
}

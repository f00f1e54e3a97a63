package platform

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// followRoutes calls update with each message of these rtnetlink groups, until ctx ends or something fails. It calls
// refresh first, and whenever messages were lost.
func followRoutes(ctx context.Context, groups []uint, refresh func() error, update func(syscall.NetlinkMessage)) error {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, groups...)
	if err != nil {
		return fmt.Errorf("subscribe to rtnetlink: %w", err)
	}
	defer context.AfterFunc(ctx, s.Close)()
	defer s.Close()
	if err := refresh(); err != nil {
		return err
	}
	for {
		messages, _, err := s.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.ENOBUFS):
			err = refresh()
		}
		if err != nil {
			return fmt.Errorf("follow rtnetlink: %w", err)
		}
		for _, m := range messages {
			update(m)
		}
	}
}

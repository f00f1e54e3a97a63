package platform

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// followRoutes tells of what the kernel says of these groups of rtnetlink, until ctx ends or something fails. anew is
// called first, and whenever notices were lost.
func followRoutes(ctx context.Context, groups []uint, anew func() error, tell func(syscall.NetlinkMessage)) error {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, groups...)
	if err != nil {
		return fmt.Errorf("subscribe to rtnetlink: %w", err)
	}
	defer context.AfterFunc(ctx, s.Close)()
	defer s.Close()
	if err := anew(); err != nil {
		return err
	}
	for {
		messages, _, err := s.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.ENOBUFS):
			err = anew()
		}
		if err != nil {
			return fmt.Errorf("follow rtnetlink: %w", err)
		}
		for _, m := range messages {
			tell(m)
		}
	}
}

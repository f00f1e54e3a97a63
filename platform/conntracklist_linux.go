package platform

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ListFlows calls each with the attributes after struct nfgenmsg of all flows of the conntrack table, valid during the
// call, until it returns false. If onlyTranslated is set, the kernel leaves out those whose destination was not
// translated, from Linux 5.16 on. Needs CAP_NET_ADMIN.
func ListFlows(ctx context.Context, onlyTranslated bool, each func(flow []byte) bool) error {
	list := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
	request := []byte{unix.AF_UNSPEC, 0, 0, 0} // struct nfgenmsg
	if onlyTranslated {
		bit := binary.BigEndian.AppendUint32(nil, ipsDstNAT)
		request = attribute(attribute(request, nl.CTA_STATUS, bit), ctaStatusMask, bit)
	}
	list.AddRawData(request)
	err := list.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(b []byte) bool {
		return ctx.Err() == nil && each(b[min(len(b), nl.SizeofNfgenmsg):])
	})
	if errors.Is(err, nl.ErrDumpInterrupted) {
		err = nil // the table changed during the dump
	}
	if err != nil {
		return fmt.Errorf("list flows: %w", err)
	}
	return ctx.Err()
}

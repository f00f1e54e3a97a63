package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// FlowProlonger has the kernel know flows for longer than it would. One goroutine uses it.
type FlowProlonger struct{ sockets map[int]*nl.SocketHandle }

// NewFlowProlonger opens a socket of netlink.
func NewFlowProlonger() (*FlowProlonger, error) {
	socket, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("prolong flows: %w", err)
	}
	return &FlowProlonger{map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: socket}}}, nil
}

// Prolong has the kernel know a client's flow of UDP for that time from now on, in whole seconds, unless a datagram
// passes before: then it is the kernel's own time again. It is no error if the kernel does not know the flow. Needs
// CAP_NET_ADMIN.
func (p *FlowProlonger) Prolong(client, to netip.AddrPort, by time.Duration) error {
	b := tuple([]byte{addressFamily(client.Addr()), 0, 0, 0}, nl.CTA_TUPLE_ORIG, unix.IPPROTO_UDP, client, to)
	seconds := uint32((by + time.Second - 1) / time.Second)
	r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_NEW, unix.NLM_F_ACK)
	r.AddRawData(attribute(b, nl.CTA_TIMEOUT, binary.BigEndian.AppendUint32(nil, seconds)))
	r.Sockets = p.sockets
	if _, err := r.Execute(unix.NETLINK_NETFILTER, 0); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("prolong the flow of %s to %s: %w", client, to, err)
	}
	return nil
}

// Close closes the socket.
func (p *FlowProlonger) Close() {
	for _, s := range p.sockets {
		s.Close()
	}
}

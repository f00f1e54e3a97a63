package ipvs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The kernel tells nobody of changes of IPVS and ipsets. But it counts, and to ask for the counts costs little.

// getInfo is IP_VS_SO_GET_INFO of linux/ip_vs.h, which answers with struct ip_vs_getinfo.
const getInfo = 64 + 1024 + 64 + 1

type serverInfo struct{ version, connections, servers uint32 }

// headersAlone is IPSET_FLAG_LIST_HEADER: sets are listed without their elements.
const headersAlone = 1 << 2

// sizes returns the sizes of now; false: they are not known.
func (h *host) sizes(sets map[string]bool) (s sizes, known bool) {
	link, err := h.link()
	if err != nil {
		return sizes{}, false
	}
	s.device = link != nil
	if s.servers, err = countServers(); err != nil {
		return sizes{}, false
	}
	if s.elements, err = countElements(sets); err != nil {
		return sizes{}, false
	}
	return s, true
}

// countServers returns the number of virtual servers of IPv4.
func countServers() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var info serverInfo
	size := uint32(unsafe.Sizeof(info))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_IP, getInfo,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return 0, fmt.Errorf("count virtual servers: %w", e)
	}
	return int(info.servers), nil
}

// countElements returns the number of elements in sets, as far as they exist.
func countElements(sets map[string]bool) (n int, err error) {
	list := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_IPSET<<8|nl.IPSET_CMD_LIST, unix.NLM_F_DUMP)
	list.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET, Version: nl.NFNETLINK_V0})
	list.AddData(nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, nl.Uint8Attr(nl.IPSET_PROTOCOL)))
	list.AddData(&nl.Uint32Attribute{Type: nl.IPSET_ATTR_FLAGS | nl.NLA_F_NET_BYTEORDER, Value: headersAlone})
	answers, err := list.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return 0, fmt.Errorf("list sets: %w", err)
	}
	for _, answer := range answers {
		name, elements := "", 0
		for a := range nl.ParseAttributes(answer[min(len(answer), nl.SizeofNfgenmsg):]) {
			switch a.Type & nl.NLA_TYPE_MASK {
			case nl.IPSET_ATTR_SETNAME:
				name = string(bytes.TrimRight(a.Value, "\x00"))
			case nl.IPSET_ATTR_DATA:
				for a := range nl.ParseAttributes(a.Value) {
					if a.Type&nl.NLA_TYPE_MASK == nl.IPSET_ATTR_ELEMENTS && len(a.Value) == 4 {
						elements = int(binary.BigEndian.Uint32(a.Value))
					}
				}
			}
		}
		if sets[name] {
			n += elements
		}
	}
	return n, nil
}

package platform

import (
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Offsets of linux/filter.h, relative to which a program asks for an attribute: in the message from the byte in A, or
// inside the attribute that begins at A, of the type in X.
const (
	adOff     = 0xfffff000 // SKF_AD_OFF, -0x1000
	adAttr    = adOff + 12 // SKF_AD_NLATTR
	adNested  = adOff + 16 // SKF_AD_NLATTR_NEST
	nlaHeader = 4
)

const everything = 1 << 31 // of the message is accepted

// flowFilter is a program that accepts events of flows whose destination was translated, or of any. If onlyFailures is
// set, it leaves out TCP connections that both sides closed, and UDP flows that were answered.
func flowFilter(all, onlyFailures bool) []unix.SockFilter {
	drop, accept := stop(0), stop(everything)
	program := status()
	if !all {
		program = append(program, jumpIfSet(ipsDstNAT, 1, 0), drop)
	}
	if !onlyFailures {
		return append(program, accept)
	}
	program = append(program, store(0))
	closed := append(state(), jumpIf(nl.TCP_CONNTRACK_LAST_ACK, 1, 0), jumpIf(nl.TCP_CONNTRACK_TIME_WAIT, 0, 1), drop)
	ended := append(findInside(nl.CTA_PROTOINFO_TCP), jumpIf(0, uint8(len(closed)), 0)) // another protocol's: see accept
	ended = append(append(ended, closed...), accept)
	program = append(program, findAttribute(nl.CTA_PROTOINFO)...)
	program = append(program, jumpIf(0, uint8(len(ended)), 0))
	program = append(program, ended...)
	return append(program, load(0), jumpIfSet(ipsSeenReply, 0, 1), drop, accept)
}

// status loads the status of the flow, which every event has.
func status() []unix.SockFilter {
	return append(findAttribute(nl.CTA_STATUS),
		unix.SockFilter{Code: unix.BPF_MISC | unix.BPF_TAX},
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_IND, K: nlaHeader})
}

// state loads the state of TCP from its attribute, which begins at A.
func state() []unix.SockFilter {
	return append(findInside(nl.CTA_PROTOINFO_TCP_STATE),
		unix.SockFilter{Code: unix.BPF_MISC | unix.BPF_TAX},
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND, K: nlaHeader})
}

// findAttribute puts into A where the flow's attribute of a kind begins, 0 if it has none.
func findAttribute(kind uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_IMM, K: unix.SizeofNlMsghdr + nl.SizeofNfgenmsg},
		{Code: unix.BPF_LDX | unix.BPF_IMM, K: kind},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: adAttr},
	}
}

// findInside does the same inside of the attribute that begins at A.
func findInside(kind uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LDX | unix.BPF_IMM, K: kind},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: adNested},
	}
}

func stop(k uint32) unix.SockFilter   { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
func store(at uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_ST, K: at} }

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_MEM, K: at}
}

// jumpIf skips that many instructions if A is the value, else the other number.
func jumpIf(value uint32, then, otherwise uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: then, Jf: otherwise}
}

// jumpIfSet does the same if A has the bit.
func jumpIfSet(bit uint32, then, otherwise uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: bit, Jt: then, Jf: otherwise}
}

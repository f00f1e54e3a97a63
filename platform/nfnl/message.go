package nfnl

import "github.com/mdlayher/netlink"

// Message is a request to nf_tables, or its answer.
type Message = netlink.Message

// Flags of requests.
const (
	Create = netlink.Create
	Append = netlink.Append
	Dump   = netlink.Dump
)

// Numbers of linux/netfilter/nfnetlink.h, and the size of its header.
const (
	subsystem     = 10 // NFNL_SUBSYS_NFTABLES
	version       = 0  // NFNETLINK_V0
	unspecified   = 0  // AF_UNSPEC
	batchBegin    = 16 // NFNL_MSG_BATCH_BEGIN
	batchEnd      = 17 // NFNL_MSG_BATCH_END
	headerSize    = 4
	messageHeader = 16 // of netlink itself
)

// Request is a message of a type (NFT_MSG_...) about a family (NFPROTO_...).
func Request(kind uint16, flags netlink.HeaderFlags, family byte, a Attributes) Message {
	return Message{
		Header: netlink.Header{Type: netlink.HeaderType(subsystem<<8 | kind), Flags: netlink.Request | flags},
		Data:   append([]byte{family, version, 0, 0}, a...),
	}
}

// Size is the number of bytes that messages take in a batch, at most.
func Size(messages []Message) (size int) {
	for _, m := range messages {
		size += messageHeader + len(m.Data) + alignment
	}
	return size
}

// batch puts messages between the marks of a transaction.
func batch(messages []Message) []Message {
	mark := func(kind netlink.HeaderType) Message {
		return Message{
			Header: netlink.Header{Type: kind, Flags: netlink.Request},
			Data:   []byte{unspecified, version, 0, subsystem},
		}
	}
	all := make([]Message, 0, len(messages)+2)
	all = append(all, mark(batchBegin))
	all = append(all, messages...)
	return append(all, mark(batchEnd))
}

// body is the attributes of an answer.
func body(m Message) []byte {
	if len(m.Data) < headerSize {
		return nil
	}
	return m.Data[headerSize:]
}

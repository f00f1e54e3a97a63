package record

import "time"

// TCPInfo has the kernel's facts of a TCP socket (TCP_INFO). Facts that a system does not have are 0.
type TCPInfo struct {
	Known           bool          // the rest was read
	RTT             time.Duration // smoothed round-trip time
	RTTVar          time.Duration // its mean deviation
	ReceiverLimited time.Duration // time that sending waited for the peer's receive window
	SenderLimited   time.Duration // time that sending waited for our own send buffer
	Busy            time.Duration // time that there was something to send, or to be acknowledged
	Retransmits     uint32        // segments, since the socket was connected
	Lost            uint32        // segments that are thought lost at this moment
	DeliveryRate    uint64        // what the peer acknowledged lately, in bytes/s
}

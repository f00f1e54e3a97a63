package record

import "time"

// TCPInfo has the kernel's facts of a TCP socket (TCP_INFO). Facts that a system does not have are 0.
type TCPInfo struct {
	Known            bool          // the rest was read
	Timeouts         uint8         // of retransmissions, since the peer last acknowledged something new
	MissingInBetween bool          // segments of the peer wait here for others before them
	PathMTU          uint32        // as the kernel knows it, in bytes
	RTT              time.Duration // smoothed round-trip time
	RTTVar           time.Duration // its mean deviation
	RTO              time.Duration // how long an acknowledgement is waited for: twice as long after each of Timeouts
	SinceHeard       time.Duration // since a segment of the peer came
	ReceiverLimited  time.Duration // time that sending waited for the peer's receive window
	SenderLimited    time.Duration // time that sending waited for our own send buffer
	Busy             time.Duration // time that there was something to send, or to be acknowledged
	SegmentsSent     uint32        // with payload, each as often as it was sent
	Retransmits      uint32        // segments, since the socket was connected
	RetransmitBytes  uint64        // of Retransmits
	Lost             uint32        // segments that are thought lost at this moment
	OutOfOrder       uint32        // segments of the peer that came out of order, since the socket was connected
	MSS              uint32        // the most payload of a segment to the peer
	LargestReceived  uint32        // payload of a segment of the peer, but 536 or less where all were smaller
	DeliveryRate     uint64        // what the peer acknowledged lately, in bytes/s
}

package platform

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// ReportRefusals has a UDP socket report that a port it has sent to is closed, which package net turns off. It is for
// connected sockets: any other would fail its next receive because of one of its peers.
func ReportRefusals(fd uintptr) {
	on, n := uint32(1), uint32(0)
	_ = windows.WSAIoctl(windows.Handle(fd), windows.SIO_UDP_CONNRESET, (*byte)(unsafe.Pointer(&on)),
		uint32(unsafe.Sizeof(on)), nil, 0, &n, nil, 0) // refused: such endpoints are not noticed, as before
}

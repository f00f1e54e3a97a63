//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// socket is the kernel's view of a TCP socket.
type socket struct {
	state uint8
	rtt   uint32 // microseconds; 0: it was never connected
}

// States of TCP, as tcp_states.h numbers them.
const (
	synSent = 2
	closed  = 7
)

// socketList is the open TCP sockets of a process.
type socketList []socket

// late names the answer that a killed program was waiting for: to its connect, or to its request.
func (l socketList) late() kind {
	for _, s := range l {
		if s.state == synSent {
			return noConnect
		}
	}
	return noAnswer
}

// dead is how a connection failed whose socket is still open; empty: none did.
func (l socketList) dead() kind {
	for _, s := range l {
		switch {
		case s.state == closed && s.rtt == 0:
			return refused
		case s.state == closed:
			return wasReset
		}
	}
	return ""
}

// sockets asks the kernel about those of a process of ours; none if it has ended.
func sockets(pid int) socketList {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(process)
	var all socketList
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fd, err := unix.PidfdGetfd(process, number, 0)
		if err != nil {
			continue // closed meanwhile
		}
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			all = append(all, socket{info.State, info.Rtt})
		}
		unix.Close(fd)
	}
	return all
}

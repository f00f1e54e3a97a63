//go:build unix && !linux

package platform

import "net"

// CheckPeer refuses nothing: the mode of the socket keeps other users away.
func CheckPeer(*net.UnixConn) error { return nil }

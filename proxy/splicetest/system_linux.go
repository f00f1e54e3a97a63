package splicetest

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// systemScenarios need Linux.
func systemScenarios() []scenario {
	return slices.Concat(urgentScenarios(), shortageScenarios(), externalScopeScenarios(), transparentScenarios(),
		sourcePortScenarios(), udpPortScenarios(), burstScenarios(), udpDropScenarios(), markScenarios(),
		retransmitScenarios(),
		missingScenarios(),
		handOverScenarios(), sessionHandOverScenarios(), deadPeerScenarios(), waitHandOverScenarios(),
		lastingHandOverScenarios(), slowScenarios(), replayLinuxScenarios(), wholeAnswerNetworkScenarios(),
		deliveryScenarios(), payloadHandOverScenarios())
}

// receiveBuffer sets the size of a socket's receive buffer, in bytes, before it is connected or listens; 0: none.
func receiveBuffer(size int) func(_, _ string, c syscall.RawConn) error {
	if size == 0 {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, size) })
		return errors.Join(failed, err)
	}
}

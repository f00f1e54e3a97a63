package config

import "github.com/portald/portald/platform"

// replyMark is the bits that packets for transparent sockets are marked with.
func replyMark() uint32 { return platform.DefaultDivert().Mark }

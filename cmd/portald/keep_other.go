//go:build !linux

package main

import "github.com/spf13/cobra"

// keepCommands are none: sockets are not passed on here.
func keepCommands() []*cobra.Command { return nil }

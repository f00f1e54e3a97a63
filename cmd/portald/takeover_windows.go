package main

import (
	"context"
	"errors"

	"github.com/portald/portald/cmd/portald/daemon"
)

func takeOver(context.Context) error {
	return errors.New("--take-over: on Windows no portald takes over from another")
}

func asSuccessor() (daemon.Life, bool) { return daemon.Life{}, false }

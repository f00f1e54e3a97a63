package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// How long something may go on before /livez takes it to hang: an event loop turns in microseconds, and rules of ten
// thousand Services take seconds, at most a minute where others hold the lock of iptables.
const (
	turnTime = time.Minute
	syncTime = 5 * time.Minute
)

// hung tells what of the daemon hangs, so that only a restart helps. Changes that the host refuses are no such thing: the
// next process would be refused as well.
func (d *daemon) hung() error {
	var err error
	if t := d.core.Silent(); t > turnTime {
		err = fmt.Errorf("an event loop has not turned for %s", t.Round(time.Second))
	}
	if t := d.stopwatch.Running(); t > syncTime {
		err = errors.Join(err, fmt.Errorf("a sync of the host's rules has not ended for %s", t.Round(time.Second)))
	}
	if err != nil {
		d.hangs.Do(func() { d.log.WithError(err).Error("portald hangs, and /livez asks for its end") })
	}
	return err
}

// checkRuntime refuses a setting of the Go runtime under which one busy connection stops all: event loops wait in the
// kernel without the scheduler's knowledge, which has to be able to interrupt them. As the runtime does, it takes the
// last of several, and passes over what is no number.
func checkRuntime() error {
	off := 0
	for one := range strings.SplitSeq(os.Getenv("GODEBUG"), ",") {
		if value, ok := strings.CutPrefix(one, "asyncpreemptoff="); ok {
			if n, err := strconv.ParseInt(value, 10, 32); err == nil {
				off = int(n)
			}
		}
	}
	if off != 0 {
		return fmt.Errorf("environment GODEBUG=%s: with asyncpreemptoff portald's event loops cannot be interrupted, and hang; "+
			"leave it out", os.Getenv("GODEBUG"))
	}
	return nil
}

package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"
)

// Drops are counted on over rules that are written again and reads that fail, and not read at each scrape.
func TestInvalidDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := logtest.NewNullLogger()
		var now uint64
		var failure error
		drops, reads := true, 0
		d := &invalidDrops{log: log, read: func(context.Context) (uint64, bool, error) {
			reads++
			return now, drops, failure
		}}
		for _, step := range []struct {
			what  string
			do    func()
			want  uint64
			known bool
		}{
			{"no answer", func() { failure = errors.New("busy") }, 0, false},
			{"the first", func() { failure, now = nil, 5 }, 5, true},
			{"more", func() { now = 7 }, 7, true},
			{"written anew", func() { now = 3 }, 10, true},
			{"no answer again", func() { failure = errors.New("busy") }, 10, true},
			{"more again", func() { failure, now = nil, 4 }, 11, true},
			{"no rule", func() { drops = false }, 11, false},
		} {
			time.Sleep(countEvery)
			step.do()
			reads = 0
			for range 3 {
				if n, known := d.dropped(); n != step.want || known != step.known {
					t.Errorf("%s: %d, %v; want %d, %v", step.what, n, known, step.want, step.known)
				}
			}
			if reads != 1 {
				t.Errorf("%s: read %d times", step.what, reads)
			}
		}
	})
}

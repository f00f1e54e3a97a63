package daemon

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/daemon/answers"
	"github.com/portald/portald/portal"
)

// refusals have a writer count the packets that its rules refuse. With iptables that may take a process that lists many
// rules.
type refusals struct {
	writer portal.Writer
	log    logrus.FieldLogger
	known  *answers.Seldom[bool] // whether the last reading succeeded
}

func newRefusals(w portal.Writer, log logrus.FieldLogger) *refusals {
	return &refusals{writer: w, log: log, known: answers.NewSeldom[bool]()}
}

// read has packets reported as of now; false: it is not known how many there are.
func (r *refusals) read(ctx context.Context) (known bool) {
	if !r.writer.Features().CountsRefused {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, countTime) // a scrape waits for it
	defer cancel()
	return r.known.Get(ctx, func(ctx context.Context) bool {
		err := r.writer.CountRefused(ctx)
		if err != nil {
			r.log.WithError(err).Debug("Cannot count refused packets")
		}
		return err == nil
	})
}

// scrape reads for a scrape.
func (r *refusals) scrape() { r.read(context.Background()) }

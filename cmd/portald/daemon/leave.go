package daemon

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/succession"
)

// stop stops the loop, redirects portals to the kernel or removes them, unless they are another daemon's, and drains: a
// successor that comes meanwhile gets what is left.
func (r *reconciler) Stop() error {
	r.state.TakeTurn()
	r.Cancel()
	close(r.ending)
	errs := []error{r.Stage.Stop()}
	moved, others := 0, r.owned.LoopEnded()
	if others {
		r.path.listeners.Fronts().Pause(nil) // the other daemon accepts
	} else {
		errs = append(errs, parts.WithTimeout(func(ctx context.Context) (err error) {
			moved, err = r.withdraw(ctx)
			return err
		}))
	}
	r.state.Drains()
	r.state.EndTurn()
	r.drain(moved)
	r.state.TakeTurn()
	defer r.state.EndTurn()
	if !r.state.OtherServes() {
		errs = append(errs, parts.WithTimeout(r.dataplane.DeleteFlows))
	}
	r.path.listeners.Close()
	return errors.Join(errs...)
}

// withdraw keeps new connections from arriving here, and returns how many service ports it handed over to the kernel.
func (r *reconciler) withdraw(ctx context.Context) (moved int, err error) {
	if r.rules.toKernel() {
		return r.handOver(ctx)
	}
	err = r.dataplane.Close(ctx)
	r.path.listeners.Close()
	return 0, errors.Join(err, r.dataplane.Unguard(ctx))
}

// handOver makes the kernel carry all service ports. Listeners stay open for connections that are under way.
func (r *reconciler) handOver(ctx context.Context) (moved int, err error) {
	moved, err = r.dataplane.MoveToKernel(ctx, r.carriedAlike)
	r.path.listeners.Withdraw()
	err = errors.Join(err, r.dataplane.Unguard(ctx))
	if moved > 0 {
		r.log.Infof("The kernel carries %d service ports until the next start or portald cleanup (onExit)", moved)
		checkForwarding(r.log)
	}
	return moved, err
}

// carriedAlike tells whether clients and endpoints of a service port understand each other without the daemon between.
// Clients of a protocol that it does not carry are refused as before.
func (r *reconciler) carriedAlike(p *service.Port) bool {
	policy := p.Policy.Or(r.settings.Load().Policy)
	header := policy.ClientAddress == service.AddressProxyV2 && p.Name.Protocol == inet.TCP
	if header {
		r.log.WithField("service", p.Name.Label()).Warn("The service port refuses its clients until the next start: its " +
			"endpoints expect a PROXY protocol header, which the kernel does not send")
	}
	return !header && service.ModeUserspace.Carries(p.Name.Protocol)
}

// deliveryTime is how long the next daemon, whose clients wait, is kept waiting for connections that were reset to be
// delivered.
const deliveryTime = 5 * time.Second

// drain waits until open connections have ended, and outstanding answers to UDP sessions have come, until the drain
// timeout, another signal or the cut.
func (r *reconciler) drain(moved int) {
	stats, timeout := r.path.core.Stats(), r.settings.Load().Drain
	live := stats.Connections
	if timeout == 0 || live+stats.Sessions == 0 && moved == 0 {
		return
	}
	if r.state.SuccessorWaits() && live == stats.Delivering {
		timeout = min(timeout, deliveryTime)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		select {
		case <-ctx.Done():
		case <-r.cut:
			cancel()
		}
	}()
	if live > 0 {
		r.log.Infof("Draining: %d connections have %s to end; another signal closes them", live, timeout)
	}
	if stats.Sessions > 0 {
		r.log.Infof("Draining: waiting a few seconds for answers to %d UDP sessions", stats.Sessions)
	}
	if moved > 0 {
		_ = backoff.Sleep(ctx, succession.HandshakeTime)
	}
	if left := r.path.core.Drain(ctx); left > 0 {
		r.log.Warnf("Drain timeout: closed %d connections", left)
	}
}

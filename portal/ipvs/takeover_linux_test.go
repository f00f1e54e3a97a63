package ipvs

import (
	"context"
	"errors"
	"testing"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

// The kernel lists what was written as it was written, or nothing would ever be adopted.
func TestAdoptFromTheKernel(t *testing.T) {
	edit := func(o *Options) { o.LocalDetector = goldens()["all"].LocalDetector }
	n := newNode(t, edit)
	portals := goldenPortals()
	n.Write(portals)
	change := portals[0]
	change.Target = portals[1].Target
	portals[0] = change
	n.Node.Must(func() error {
		changes := []portal.Change{{Frontend: change.Frontend, Portal: &change}}
		if err := n.ours.Update(context.Background(), changes); err != nil {
			return err
		}
		next, err := open(t, edit)
		if err != nil {
			return err
		}
		next.Guard(portaltest.Guarded(true))
		if err := next.Adopt(context.Background(), portals[1:]); err == nil {
			t.Error("a portal too many is no difference")
		}
		return errors.Join(next.Adopt(context.Background(), portals), next.Audit(context.Background()),
			next.Update(context.Background(), []portal.Change{{Frontend: change.Frontend}}),
			next.Audit(context.Background()))
	})
}

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// source is where a world's portald has its objects from.
type source interface {
	// put has these Services be all that there are, after some time. An error is one that may be over the next time.
	put([]bed.Service) error

	wrapper() []string // the command that portald is started by, if any
	flags() []string
	faults(*world) []fault        // what only this source does
	wasAway(since time.Time) bool // it may be that portald waits longer before it asks again
	refuses() bool                // it may refuse what it grants, for a moment, which portald logs as an error
}

// manifests are a file.
type manifests struct{ bed *bed.Bed }

func (m manifests) put(all []bed.Service) error {
	m.bed.WriteManifest(bed.Manifest, text(all))
	return nil
}

func text(all []bed.Service) string {
	var b strings.Builder
	for _, s := range all {
		b.WriteString(s.String())
	}
	return b.String()
}

func (m manifests) wrapper() []string { return nil }

func (m manifests) flags() []string {
	return []string{"--hostname-override=" + alone, "--manifests", filepath.Join(m.bed.Dir, bed.Manifest)}
}

func (m manifests) wasAway(time.Time) bool { return false }

func (m manifests) refuses() bool { return false }

func (m manifests) faults(w *world) []fault {
	spoil := func(dice *rand.Rand, _ *event) { m.spoil(w, dice) }
	return []fault{{"manifests are spoilt", spoil}}
}

// spoil has something in the manifests that cannot be read: the rest is served.
func (m manifests) spoil(w *world, dice *rand.Rand) {
	w.mu.Lock()
	served := text(w.wanted())
	w.mu.Unlock()
	bad := []string{"---\n{[", "---\nkind: Service\n", "---\nkind: [\n"}
	w.WriteManifest(bed.Manifest, served+bad[dice.IntN(len(bad))])
	time.Sleep(time.Duration(dice.Int64N(int64(time.Second))))
	w.change(func(*state) {})
}

// callTime is how long a call of the API server may take: one may stand still.
const callTime = 5 * time.Second

// objects are those of a namespace of the API server.
type objects struct {
	space            *cluster.Namespace
	node, kubeconfig string
	has              map[bed.Object]bool // none of which was deleted
	control          *control
}

// put does all that is left to do, the deletions first: what is created may want the addresses.
func (o *objects) put(all []bed.Service) error {
	o.control.away.RLock()
	defer o.control.away.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var wanted []bed.Object
	stay := map[string]bool{}
	for _, s := range all {
		for _, object := range s.Objects() {
			wanted = append(wanted, object)
			stay[object.Resource+object.Name] = true
		}
	}
	for object := range o.has {
		if stay[object.Resource+object.Name] {
			continue
		}
		if err := o.space.Delete(ctx, object.Resource, object.Name); err != nil {
			return fmt.Errorf("delete %s %s: %w", object.Resource, object.Name, err)
		}
		delete(o.has, object)
	}
	for _, object := range wanted {
		if o.has[object] {
			continue
		}
		if err := o.space.Apply(ctx, object.Resource, object.Name, object.YAML); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.Resource, object.Name, err)
		}
		for other := range o.has {
			if other.Resource == object.Resource && other.Name == object.Name {
				delete(o.has, other)
			}
		}
		o.has[object] = true
	}
	return nil
}

// wrapper has portald notice sooner than after 45 s that a connection to the API server is dead.
func (o *objects) wrapper() []string {
	return []string{"env", "HTTP2_READ_IDLE_TIMEOUT_SECONDS=3", "HTTP2_PING_TIMEOUT_SECONDS=6"}
}

func (o *objects) flags() []string {
	return []string{"--hostname-override=" + o.node, "--kubeconfig=" + o.kubeconfig}
}

func (o *objects) faults(*world) []fault { return nil }

func (o *objects) wasAway(since time.Time) bool { return o.control.back.Load() > since.UnixNano() }

// refuses is true: an API server that has just started may not know its roles yet.
func (o *objects) refuses() bool { return true }

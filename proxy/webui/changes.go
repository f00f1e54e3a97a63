package webui

import (
	"context"
	"slices"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
)

// alike is how long after each other nodes may notice the same change.
const alike = 5 * time.Second

// mostChangesShown bounds the changes that are shown.
const mostChangesShown = 200

// Change is what changed, on the nodes that noticed it.
type Change struct {
	changes.Line
	Nodes   []string `json:"portald_nodes"`
	Warning bool     `json:"warning,omitempty"` // it is a problem of its own
	Effect  bool     `json:"effect,omitempty"`  // it comes of connections that failed
}

func changesOf(ctx context.Context, client *adminsocket.Client, q adminsocket.ChangeQuery) (all []*Change, err error) {
	err = client.Changes(ctx, q, func(l *changes.Line) error {
		all = append(all, &Change{Line: *l, Warning: l.Kind.Warning(), Effect: l.Kind.Effect()})
		return nil
	}, func(adminsocket.Gap) error { return nil })
	return all, err
}

// together makes one of what several nodes noticed at about the same time, and puts the latest first.
func together(all []*Change) []*Change {
	slices.SortStableFunc(all, func(a, b *Change) int { return a.Time.Compare(b.Time) })
	last := map[string]int{} // the place of the last change with a text
	out := []*Change{}
	for _, c := range all {
		at, was := last[c.Text]
		if was && c.Time.Sub(out[at].Time) < alike && !slices.Contains(out[at].Nodes, c.Nodes[0]) {
			out[at].Nodes = append(out[at].Nodes, c.Nodes...)
			continue
		}
		last[c.Text] = len(out)
		out = append(out, c)
	}
	slices.Reverse(out)
	return out[:min(len(out), mostChangesShown)]
}

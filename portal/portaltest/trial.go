package portaltest

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/portal"
)

// trial is one test; each step of it that goes wrong ends it.
type trial struct {
	*testing.T
	Subject
	spread bool                      // portals that spread too
	open   map[portal.ProxyPort]bool // the proxy ports that writers know of from the beginning
}

func (t *trial) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *trial) writer() portal.Writer {
	t.Helper()
	w, err := t.NewWriter()
	t.must(err)
	w.Guard(t.open)
	return w
}

func (t *trial) dump() string {
	t.Helper()
	text, err := t.Host.Dump(t.Context())
	t.must(err)
	return text
}

func (t *trial) audit(w portal.Writer) error {
	return w.Audit(t.Context())
}

func (t *trial) cleanup(w portal.Writer) {
	t.Helper()
	t.must(w.Cleanup(t.Context()))
}

func (t *trial) same(what, want, got string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// portals are n as the writers hold them.
func (t *trial) portals(random *rand.Rand, n int) []portal.Portal {
	if t.spread {
		return SpreadPortals(random, n)
	}
	return Portals(random, n)
}

// change makes changes that the writers take.
func (t *trial) change(s State, random *rand.Rand, n int) []portal.Change {
	if t.spread {
		return s.ChangeSpread(random, n)
	}
	return s.Change(random, n)
}

// clean is the dump of a host without portals. Facilities make tables of their own at the first use, which may stay: it
// lets them.
func (t *trial) clean() string {
	t.Helper()
	w := t.writer()
	t.must(w.Replace(t.Context(), nil))
	t.cleanup(w)
	return t.dump()
}

// fresh is the dump of a host that was given portals and nothing before.
func (t *trial) fresh(portals []portal.Portal) string {
	t.Helper()
	w := t.writer()
	t.cleanup(w)
	t.must(w.Replace(t.Context(), portals))
	return t.dump()
}

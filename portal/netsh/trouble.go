package netsh

import (
	"maps"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// trouble has the errors that keep a portal from being served, by socket.
type trouble struct {
	portal portal.Portal // as it was when that began
	at     map[service.Frontend]error
	told   string // the error that was reported
}

// report notes what is in the way of a portal at one of its sockets; nil: nothing.
func (w *Writer) report(of, at service.Frontend, err error) {
	t := w.troubles[of]
	switch {
	case err == nil && t == nil:
		return
	case err == nil:
		if delete(t.at, at); len(t.at) == 0 {
			w.endTrouble(of)
			return
		}
	case t == nil:
		t = &trouble{portal: w.portals[of], at: map[service.Frontend]error{at: err}}
		w.troubles[of] = t
	default:
		t.at[at] = err
	}
	w.tell(t)
}

// tell reports the error of the first socket, unless that is known.
func (w *Writer) tell(t *trouble) {
	err := t.at[slices.SortedFunc(maps.Keys(t.at), service.Frontend.Compare)[0]]
	if err.Error() != t.told {
		t.told = err.Error()
		w.Failed(t.portal, err)
	}
}

func (w *Writer) endTrouble(of service.Frontend) {
	if t := w.troubles[of]; t != nil {
		delete(w.troubles, of)
		w.Failed(t.portal, nil)
	}
}

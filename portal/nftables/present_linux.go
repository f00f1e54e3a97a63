package nftables

import "context"

// Present tells whether a Writer with this table's name has written it, and it is still there: it has a chain that
// kube-proxy's does not have.
func (w *Writer) Present(context.Context) (bool, error) {
	for _, t := range w.tables {
		there, _, err := t.there()
		if err != nil || !there {
			return false, err
		}
		chains, err := t.heldChains()
		if err != nil || chains[guard] != nil {
			return err == nil, err
		}
	}
	return false, nil
}

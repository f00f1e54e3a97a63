package nftables

import (
	"context"

	"github.com/portald/portald/portal/nftables/layout"
)

// Present tells whether the kernel has a table of this name that a Writer has written: it has a chain that kube-proxy's
// does not have.
func (w *Writer) Present(context.Context) (bool, error) {
	for _, t := range w.tables {
		exists, _, err := t.kernel.exists()
		if err != nil || !exists {
			return false, err
		}
		chains, err := t.kernel.listChains()
		if err != nil || chains[layout.Guard] != nil {
			return err == nil, err
		}
	}
	return false, nil
}

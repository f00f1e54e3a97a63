package iptables

import "context"

// Present tells whether a Writer with this prefix has written rules on this host that are still there. Of kube-proxy's
// names, those that only a Writer has tell its rules from kube-proxy's own.
func (w *Writer) Present(ctx context.Context) (bool, error) {
	for _, h := range w.hosts {
		if _, err := h.list(ctx, filterTable, h.filter.guard); err == nil { // an error is how the command says that there is none
			return true, nil
		}
	}
	return false, ctx.Err()
}

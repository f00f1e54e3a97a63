// Package hns reads what Windows' Host Networking Service (HNS) has: networks of containers, and load balancers, which
// kube-proxy makes. It changes nothing.
//
// Documents of HNS are JSON; a file with the suffix windows has the calls that return them, the others compile
// everywhere.
package hns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrMissing is the error of a host without HNS.
var ErrMissing = errors.New("this host has no Host Networking Service")

// Network is a network of containers.
type Network struct {
	ID   string
	Name string
	Type string // Overlay, L2Bridge, L2Tunnel, Transparent, NAT, ICS, Internal, Private
}

func (n Network) String() string { return fmt.Sprintf("%q of type %s", n.Name, n.Type) }

// IsOverlay tells whether the network is an overlay: Windows reaches pods in it only from their own node.
func (n Network) IsOverlay() bool { return strings.EqualFold(n.Type, "Overlay") }

// ForPods tells whether CNI plug-ins of Kubernetes make networks of this type. The others are inside one host.
func (n Network) ForPods() bool {
	ofPods := []string{"overlay", "l2bridge", "l2tunnel", "transparent"}
	return slices.Contains(ofPods, strings.ToLower(n.Type))
}

// kind is a kind of object, as in the names of the calls.
type kind string

const networks kind = "Network"

// api has the calls of the Host Compute Network API that read.
type api interface {
	list(k kind, query string) (document string, err error)
	properties(k kind, id, query string) (document string, err error)
}

// query asks for the newer one of the two forms that documents have.
const query = `{"SchemaVersion":{"Major":2,"Minor":0}}`

// Networks lists the networks of this host. If HNS does not answer before ctx ends, its call is left behind.
func Networks(ctx context.Context) ([]Network, error) {
	return within(ctx, func() ([]Network, error) { return read[Network](host{}, networks) })
}

// read reads all objects of a kind.
func read[T any](from api, k kind) ([]T, error) {
	ids, err := ids(from, k)
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(ids))
	for _, id := range ids {
		document, err := from.properties(k, id, query)
		if err != nil {
			if now, failed := listed(from, k, id); failed == nil && !now {
				continue // it was removed meanwhile
			}
			return nil, err
		}
		var one T
		if err := json.Unmarshal([]byte(document), &one); err != nil {
			return nil, fmt.Errorf("read HNS %s %s: %w", k, id, err)
		}
		out = append(out, one)
	}
	return out, nil
}

func ids(from api, k kind) (out []string, err error) {
	document, err := from.list(k, query)
	if err != nil || document == "" {
		return nil, err
	}
	if err := json.Unmarshal([]byte(document), &out); err != nil {
		return nil, fmt.Errorf("read the list of HNS %ss: %w", k, err)
	}
	return out, nil
}

func listed(from api, k kind, id string) (bool, error) {
	now, err := ids(from, k)
	return slices.Contains(now, id), err
}

// within returns what a call returns, or an error if that takes longer than ctx.
func within[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := call()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("HNS did not answer: %w", context.Cause(ctx))
	}
}

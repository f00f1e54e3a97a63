//go:build !windows

package hns

// host has no HNS.
type host struct{}

func (host) list(kind, string) (string, error) { return "", ErrMissing }

func (host) properties(kind, string, string) (string, error) { return "", ErrMissing }

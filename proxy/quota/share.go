package quota

import (
	"fmt"
	"sync/atomic"
)

// share counts what a namespace, Service or client has taken of an Account, and limits it to `times` what is left of
// the share that it is a part of. Of k parts that all want everything, each gets times/(1+k*times).
type share struct {
	of    *share // nil: a part of everything
	times float64
	used  [resources]atomic.Int64
	told  atomic.Int64 // sessions that it is to give up, and has not by now
}

// Used returns how much of a resource it has taken.
func (s *share) Used(r Resource) int64 { return s.used[r].Load() }

// keeps is how many sessions are left once those are given up that it was told to.
func (s *share) keeps() int64 { return s.used[Sessions].Load() - s.told.Load() }

// tell notes that so many sockets are told to give up a session each. Each calls done when it has.
func (s *share) tell(sockets int) (done func()) {
	s.told.Add(int64(sockets))
	return func() { s.told.Add(-1) }
}

// The shares. Each limit is below that of what it is a part of, so that something is left for whoever comes next.
const (
	namespaceShare = 16 // 16/17 of everything
	serviceShare   = 8  // of its namespace: five sixths of everything
	networkShare   = 4  // what a client address has of all Services, or the /64 of an IPv6 address: four fifths
	addressShare   = 8  // an IPv6 address of its /64
)

// ClientShare is how many times what is free of a Service, or of one UDP socket, a client address may take: of
// everything, eight ninths.
const ClientShare = 8

// charge adds n, and to whatever it is a part of.
func (s *share) charge(r Resource, n int64) {
	for ; s != nil; s = s.of {
		s.used[r].Add(n)
	}
}

// left is how much more may be taken while so much is free of everything; negative: too much is taken already.
func (s *share) left(r Resource, free float64) float64 {
	if s.of != nil {
		free = s.of.left(r, free)
	}
	return (s.times*free - float64(s.used[r].Load())) / (s.times + 1)
}

// ShareError is returned when the account refuses something, since somebody has taken as much as it may.
type ShareError struct {
	Of   error  // which resource: ErrDescriptors or ErrSessions
	Who  string // such as "namespace shop"; empty: everything is taken
	Used int64
	All  int64 // how much there is for everybody
}

func (e *ShareError) Unwrap() error { return e.Of }

func (e *ShareError) Error() string {
	if e.Who == "" {
		return fmt.Sprintf("%v: all %d are taken", e.Of, e.All)
	}
	return fmt.Sprintf("%v: %s has %d of %d", e.Of, e.Who, e.Used, e.All)
}

// refusal is why n more are not granted: it names the widest share that has no room for more.
func (c *Client) refusal(of error, r Resource, n int64) error {
	a := c.service.account
	free := a.free(r, c.TakeAnyway(r, n))
	defer c.Give(r, n)
	e := &ShareError{Of: of, All: a.most[r]}
	service, address := c.service.name, c.address.addr
	for _, part := range []struct {
		share *share
		who   string
		names []any
	}{
		{c.service.of, "namespace %s", []any{service.Namespace}},
		{&c.service.share, "Service %s", []any{service}},
		{c.address.of, "the clients of network %s", []any{networkOf(address)}},
		{&c.address.share, "client %s", []any{address}},
		{&c.share, "client %s of Service %s", []any{address, service}},
	} {
		if part.share != nil && part.share.left(r, free) < float64(n) {
			e.Who, e.Used = fmt.Sprintf(part.who, part.names...), part.share.used[r].Load()-n
			break
		}
	}
	return e
}

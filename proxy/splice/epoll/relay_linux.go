package epoll

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// relay is the two sockets of a connection and what flows between them.
type relay struct {
	client, endpoint socket
	up, down         flow   // client to endpoint, endpoint to client
	slot             uint32 // in the engine's memory, while somebody keeps the connection
}

func (r *relay) socketOf(side record.Side) *socket {
	if side == record.Client {
		return &r.client
	}
	return &r.endpoint
}

func (r *relay) flowFrom(side record.Side) *flow {
	if side == record.Client {
		return &r.up
	}
	return &r.down
}

// observePayload has the bytes that are read from now on passed to a keeper of payload; nil: to nobody.
func (r *relay) observePayload(k *payload.Keeper) {
	r.up.payload, r.down.payload = nil, nil
	if k != nil {
		r.up.payload, r.down.payload = &k.FromClient, &k.FromEndpoint
	}
}

// bulk tells whether either flow is.
func (r *relay) bulk() bool { return r.up.loads.bulk() || r.down.loads.bulk() }

// guard has the death of this process reset the streams that go on: see socket.guard.
func (r *relay) guard() {
	if !r.down.eof {
		r.client.guard()
	}
	if !r.up.eof && r.endpoint.fd >= 0 {
		r.endpoint.guard()
	}
}

// unguard ends that.
func (r *relay) unguard() {
	r.client.unguard()
	r.endpoint.unguard()
}

// watch watches the sockets that are not watched yet. Their present readiness is reported as their first event.
func (r *relay) watch(p *poller, h handler) syscall.Errno {
	if !r.client.watched {
		events := uint32(streamEvents)
		if r.client.writable {
			events &^= unix.EPOLLOUT // watched for once the client's send buffer is full
		}
		if e := r.client.watch(p, h, events); e != 0 {
			return e
		}
	}
	if !r.endpoint.watched {
		return r.endpoint.watch(p, h, streamEvents)
	}
	return 0
}

func (r *relay) unwatch(p *poller) {
	r.client.unwatch(p)
	r.endpoint.unwatch(p)
}

// publish stores what was carried so far for other goroutines to read.
func (r *relay) publish(t *splice.Traffic) {
	r.up.publish(&t.FromClient, &t.ToEndpoint)
	r.down.publish(&t.FromEndpoint, &t.ToClient)
}

// firstByteWaits tells whether a byte of the endpoint has come that was not read.
func (r *relay) firstByteWaits() bool {
	var b [1]byte
	n, e := sysPeek(r.endpoint.fd, b[:])
	return e == 0 && n > 0
}

// inFlight tells whether bytes were not read yet, or not acknowledged.
func (r *relay) inFlight() bool {
	for _, s := range []*socket{&r.client, &r.endpoint} {
		if unread, unacknowledged := Queues(uintptr(s.fd)); unread+unacknowledged > 0 {
			return true
		}
	}
	return false
}

// leaveEndpoint closes the endpoint's socket and forgets what was read for it, for another endpoint to get that again.
func (r *relay) leaveEndpoint(s *stock) {
	r.endpoint.unguard()
	r.endpoint.close(s.poll, r.kept(), sysClose)
	r.up.restart(s)
	r.down = flow{}
	r.endpoint = socket{fd: -1}
}

// close closes both sockets, by a reset or a FIN, and gives back what was borrowed.
func (r *relay) close(s *stock, reset bool) {
	if !reset {
		r.unguard()
	}
	closeFd := sysClose
	switch {
	case r.kept() && reset:
		closeFd = sysAbort
	case r.kept():
		closeFd = sysFinish
	case reset:
		closeFd = sysReset
	}
	r.closeBy(s, closeFd)
}

// leave closes the sockets here, which a successor has: it goes on with them.
func (r *relay) leave(s *stock) { r.closeBy(s, sysClose) }

func (r *relay) closeBy(s *stock, closeFd func(int)) {
	r.up.drop(s)
	r.down.drop(s)
	r.client.close(s.poll, r.kept(), closeFd)
	r.endpoint.close(s.poll, r.kept(), closeFd)
}

// files are the descriptors of both sockets, and of the pipes that have bytes.
func (r *relay) files() []int {
	files := append([]int{r.client.fd, r.endpoint.fd}, r.up.files()...)
	return append(files, r.down.files()...)
}

// save completes what a successor has to know of the connection.
func (r *relay) save(to *splice.SavedConn, now time.Duration) {
	to.Up, to.Down = r.up.save(), r.down.save()
	to.ToClient, to.ToEndpoint = r.client.save(now), r.endpoint.save(now)
}

// restoreSockets goes on with the sockets of a predecessor's connection.
func (r *relay) restoreSockets(from *splice.SavedConn, client, endpoint int, now time.Duration) {
	r.client.fd, r.endpoint.fd, r.endpoint.tag = client, endpoint, tagDial
	r.client.restore(from.ToClient, now)
	r.endpoint.restore(from.ToEndpoint, now)
}

// restoreFlows goes on with the counts and the buffered bytes of its flows, in these pipes.
func (r *relay) restoreFlows(s *stock, from *splice.SavedConn, pipes []int) {
	pipes = r.up.restore(s, from.Up, pipes)
	r.down.restore(s, from.Down, pipes)
}

package goroutine

import (
	"sync"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// carry starts the direction from the endpoint and runs the one from the client itself. False: no other step comes.
func (c *conn) carry(s splice.Step) (more bool) {
	c.mu.Lock()
	c.ending.done = 0
	endpoint, early, replayable := c.endpoint, c.early, c.Replay().Possible()
	c.mu.Unlock()
	t := c.Traffic()
	fromClient, _ := c.client.SyscallConn()
	fromEndpoint, _ := endpoint.SyscallConn()
	up := direction{c: c, from: source{record.Client, c.client, fromClient, &t.FromClient},
		to: sink{c.e, record.Endpoint, endpoint, fromEndpoint, &t.ToEndpoint, &c.writes, &c.endpointBlocked}}
	down := direction{c: c, from: source{record.Endpoint, endpoint, fromEndpoint, &t.FromEndpoint},
		to: sink{c.e, record.Client, c.client, fromClient, &t.ToClient, &c.writes, &c.clientBlocked}}
	if replayable {
		c.carryReplayable(s, &up, &down, early)
		return true
	}
	go down.run(nil)
	if s.Header != nil {
		if _, err := endpoint.Write(s.Header); err != nil {
			up.sendFailed(err)
			up.over()
			return false
		}
	}
	up.run(early)
	return false
}

// carryReplayable carries until the connection has ended, or goes to another endpoint.
func (c *conn) carryReplayable(s splice.Step, up, down *direction, early chan load) {
	c.mu.Lock()
	unsent := c.restart.unsent
	up.keeps, c.restart.unsent = true, nil
	c.mu.Unlock()
	var ends sync.WaitGroup
	ends.Go(func() { down.run(nil) })
	goesOn := up.again(s)
	for ; goesOn && len(unsent) > 0; unsent = unsent[1:] {
		up.urgent = unsent[0].urgent
		goesOn = up.pass(unsent[0])
	}
	if goesOn {
		up.run(early)
		early = nil
	} else {
		up.over()
	}
	ends.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restart.dropped {
		c.restart.keep(unsent, early)
	}
	c.restart.dropped, c.restart.failure, c.restart.gone = false, nil, false
	c.endpointBlocked.Restore(0, false, 0)
	_ = c.client.SetReadDeadline(time.Time{}) // it may be closed
	if c.Passage().AwaitsEndpoint() {
		c.watchClient()
	}
}

// endpointFailed is for the direction from the endpoint, which has ended by this error, or by an earlier one of a send.
// mu is held.
func (c *conn) endpointFailed(err error) splice.Step {
	if c.restart.failure != nil {
		err = c.restart.failure
	}
	return c.brokenBy(record.Endpoint, err)
}

// leaveEndpoint goes back to dials, as splice.Step.Drop tells. mu is held.
func (c *conn) leaveEndpoint() {
	unguard(c.endpoint)
	c.endpoint.Close()
	c.endpoint, c.early = nil, nil
	c.dials = dials{}
	c.restart.dropped = true
	c.setTimer(-1)
	_ = c.client.SetReadDeadline(time.Unix(1, 0)) // long past: it interrupts who reads
}

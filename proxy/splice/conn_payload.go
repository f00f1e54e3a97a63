package splice

import (
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/quota"
)

// payloadMemory is payload.Memory for a client.
type payloadMemory struct{ *quota.Client }

// Take implements payload.Memory.
func (m payloadMemory) Take(bytes int64) bool { return m.Client.Take(quota.PayloadBytes, bytes) }

// Give implements payload.Memory.
func (m payloadMemory) Give(bytes int64) { m.Client.Give(quota.PayloadBytes, bytes) }

// connPayload is a connection, of which payload may be kept.
type connPayload struct{ *Conn }

func (c connOpen) payload() connPayload { return connPayload(c) }

// begin keeps payload of a connection whose endpoint is reached, where its service port's policy says so now. It may
// have begun for an endpoint that was left.
func (c connPayload) begin() {
	if c.wanted() && c.keeper == nil {
		c.keeper = payload.NewKeeper(payloadMemory{c.quota})
	}
	if c.keeper != nil {
		c.owner.ObservePayload(c.keeper)
	}
}

func (c connPayload) wanted() bool {
	return c.life.entry.front.present().policy.KeepPayload == service.KeepBadlyEnded
}

// policyChanged is called after the service port may have changed its policy. A connection that dials asks once it has
// reached an endpoint.
func (c connPayload) policyChanged(time.Duration) Step {
	switch wanted := c.wanted(); {
	case c.life.entry.won.Load() == nil || c.replay.between():
	case wanted:
		c.begin()
	case c.keeper != nil:
		c.drop()
		c.owner.ObservePayload(nil)
	}
	return Step{}
}

func (c connPayload) drop() {
	if c.keeper != nil {
		c.keeper.Release()
		c.keeper = nil
	}
}

// end returns what was kept of a connection that has ended badly, or of which that is still open; nil: nothing.
func (c connPayload) end() *payload.Kept {
	if c.keeper == nil || c.life.result.ended.Outcome.Well() && c.life.result.suspect == nil {
		c.drop()
		return nil
	}
	t := &c.life.entry.traffic
	kept := c.keeper.End(t.FromClient.Load(), t.FromEndpoint.Load())
	c.keeper = nil
	return kept
}

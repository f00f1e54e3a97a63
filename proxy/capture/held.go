package capture

import (
	"container/list"
	"slices"

	"github.com/portald/portald/platform/packets"
)

// frame is a packet that was seen, with what was read of its headers.
type frame struct {
	packets.Frame
	flow  packets.Flow // see tracker.key
	begin bool
}

// overhead is about what a held packet takes beside its data.
const overhead = 256

func (f *frame) size() int { return len(f.Data) + overhead }

// heldFrames are packets of which it is not decided what becomes of them, by flow. What does not fit pushes out the
// oldest.
type heldFrames struct {
	room    int // bytes
	used    int
	order   list.List // of *frame, the oldest first
	flows   map[packets.Flow]*heldFlow
	evicted int64
}

// heldFlow is the packets of one flow.
type heldFlow struct {
	first  []*list.Element // the handshake among them
	frames []*list.Element // those after them
	used   int
}

// kept is how many of the first packets a flow keeps while it pushes out its own.
const kept = 32

func newHeldFrames(room int) *heldFrames {
	return &heldFrames{room: room, flows: map[packets.Flow]*heldFlow{}}
}

// share is the part of the room that one flow gets: a bulk transfer pushes out its own packets first.
const share = 4

// add keeps a packet, whose data it copies.
func (h *heldFrames) add(f *frame) {
	own := *f
	own.Data = slices.Clone(f.Data)
	of := h.flows[f.flow]
	if of == nil {
		of = &heldFlow{}
		h.flows[f.flow] = of
	}
	if e := h.order.PushBack(&own); len(of.first) < kept && len(of.frames) == 0 {
		of.first = append(of.first, e)
	} else {
		of.frames = append(of.frames, e)
	}
	of.used += own.size()
	h.used += own.size()
	for of.used > h.room/share && len(of.frames) > 1 {
		h.evict(of.frames[0])
	}
	for h.used > h.room && h.order.Len() > 1 {
		h.evict(h.order.Front())
	}
}

// evict drops the oldest packet of a flow, or the oldest after its first ones.
func (h *heldFrames) evict(e *list.Element) {
	f := h.remove(e)
	h.evicted++
	of := h.flows[f.flow]
	of.used -= f.size()
	if len(of.first) > 0 && of.first[0] == e {
		of.first = of.first[1:]
	} else {
		of.frames = of.frames[1:]
	}
	if len(of.first)+len(of.frames) == 0 {
		delete(h.flows, f.flow)
	}
}

func (h *heldFrames) remove(e *list.Element) *frame {
	f := h.order.Remove(e).(*frame)
	h.used -= f.size()
	return f
}

// take returns the packets of a flow, and keeps none of them.
func (h *heldFrames) take(flow packets.Flow) []*frame {
	of := h.flows[flow]
	if of == nil {
		return nil
	}
	delete(h.flows, flow)
	all := make([]*frame, 0, len(of.first)+len(of.frames))
	for _, e := range slices.Concat(of.first, of.frames) {
		all = append(all, h.remove(e))
	}
	return all
}

// begin is the time of the first packet of a flow that is held.
func (h *heldFlow) begin() int64 {
	of := h.first
	if len(of) == 0 {
		of = h.frames
	}
	return of[0].Value.(*frame).Time
}

// last is that of the last one.
func (h *heldFlow) last() int64 {
	of := h.frames
	if len(of) == 0 {
		of = h.first
	}
	return of[len(of)-1].Value.(*frame).Time
}

// oldest is the time of the oldest packet, or the other time if that is earlier or there is none.
func (h *heldFrames) oldest(other int64) int64 {
	if e := h.order.Front(); e != nil {
		return min(other, e.Value.(*frame).Time)
	}
	return other
}

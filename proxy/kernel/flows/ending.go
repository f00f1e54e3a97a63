package flows

import (
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
)

// ending is how a flow ended, as far as the kernel tells.
type ending struct {
	outcome record.Outcome
	close   record.CloseType
	errno   syscall.Errno
}

// endOf tells how a flow ended. An entry that had time left was removed by somebody: by the kernel when the endpoint
// refused a connection, or when the addresses and ports were used again; else by a program, or because the table was
// full.
func endOf(f *Flow) ending {
	switch f.Protocol {
	case inet.UDP:
		return endOfUDP(f)
	case inet.SCTP:
		return endOfSCTP(f)
	}
	seenReply := f.Status&SeenReply != 0
	switch {
	case f.State == Closed && f.Status&Assured == 0 && onlyResets(f):
		return ending{record.OutcomeDialFailed, record.Reset, syscall.ECONNREFUSED}
	case f.State == Closed:
		return ending{record.OutcomeReset, record.Reset, syscall.ECONNRESET}
	case !seenReply, f.State == SynSent, f.State == SynRecv, f.State == SynSent2:
		return ending{record.OutcomeDialFailed, record.Timeout, syscall.ETIMEDOUT}
	case f.State == TimeWait, f.State == LastAck:
		return ending{record.OutcomeOK, record.FIN, 0}
	case f.State == StateUnknown:
		return ending{record.OutcomeOK, "", 0}
	case f.Timeout > 0:
		return ending{record.OutcomeCut, "", 0}
	case f.State == FinWait, f.State == CloseWait:
		return ending{record.OutcomeHalfClosed, record.Timeout, 0}
	}
	return ending{record.OutcomeIdle, record.Timeout, 0}
}

func endOfUDP(f *Flow) ending {
	switch {
	case f.Status&SeenReply == 0:
		return ending{record.OutcomeUnanswered, record.Timeout, 0}
	case f.Timeout > 0:
		return ending{record.OutcomeCut, "", 0}
	}
	return ending{record.OutcomeOK, record.Timeout, 0}
}

// endOfSCTP: an association that was up is Assured. One that was shut down and one that was aborted look alike.
func endOfSCTP(f *Flow) ending {
	up := f.Status&Assured != 0
	switch {
	case f.Status&SeenReply == 0, f.SCTP == SCTPCookieWait, f.SCTP == SCTPCookieEchoed:
		return ending{record.OutcomeDialFailed, record.Timeout, syscall.ETIMEDOUT}
	case f.SCTP == SCTPClosed && !up:
		return ending{record.OutcomeDialFailed, record.Reset, syscall.ECONNREFUSED}
	case f.SCTP == SCTPClosed, f.SCTP == SCTPUnknown:
		return ending{record.OutcomeOK, "", 0}
	case f.Timeout > 0:
		return ending{record.OutcomeCut, "", 0}
	}
	return ending{record.OutcomeIdle, record.Timeout, 0}
}

// onlyResets tells whether all that came back were segments without options, as a reset is: a host that accepts sends
// its maximum segment size first. Without counters the kernel's own judgement has to do: an answer it does not count as
// one was a reset.
func onlyResets(f *Flow) bool {
	if f.Returned.Packets == 0 {
		return f.Status&SeenReply == 0
	}
	const ipv4, ipv6, tcp = 20, 40, 20 // bytes of headers
	header := uint64(ipv4 + tcp)
	if f.To.Addr().Is6() {
		header = ipv6 + tcp
	}
	return f.Returned.Bytes == f.Returned.Packets*header
}

// Timeouts are how long the kernel keeps an idle entry.
type Timeouts struct {
	TCP            [SynSent2 + 1]time.Duration        // by State
	SCTP           [SCTPEstablished + 1]time.Duration // by SCTPState
	UDP, UDPStream time.Duration                      // UDPStream: of flows that are Assured
}

// idle is how long no packet had come before the entry was removed.
func (t *Timeouts) idle(f *Flow) time.Duration {
	whole := t.UDP
	switch {
	case f.Protocol == inet.TCP && int(f.State) < len(t.TCP):
		whole = t.TCP[f.State]
	case f.Protocol == inet.SCTP:
		whole = 0 // not told of later states: as if the last packet came at the end
		if int(f.SCTP) < len(t.SCTP) {
			whole = t.SCTP[f.SCTP]
		}
	case f.Status&Assured != 0:
		whole = t.UDPStream
	}
	return max(0, whole-time.Duration(f.Timeout)*time.Second)
}

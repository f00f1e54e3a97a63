package goroutine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// session is a splice.Session with its socket to the endpoint. The mutex of its udpSocket guards it.
type session struct {
	splice.Session
	u     *udpSocket
	key   splice.SessionKey
	iface int
	udp   *net.UDPConn // nil: there is none
}

// Dial implements splice.SessionConn.
func (s *session) Dial(to netip.AddrPort, as netip.Addr, first []byte) (netip.AddrPort, splice.Shortage, error) {
	e := s.u.e
	d := net.Dialer{Control: e.dialControl(inet.UDP, as)}
	c, err := d.DialContext(context.Background(), network("udp", to.Addr()), to.String())
	if err == nil && first != nil {
		if _, err = c.Write(first); err != nil {
			c.Close()
		}
	}
	if err != nil {
		lack := shortage(err)
		if lack != splice.Enough {
			e.core.Options().Warn(cause(err))
		}
		return netip.AddrPort{}, lack, cause(err)
	}
	s.udp = c.(*net.UDPConn)
	if e.host.Refusals != nil {
		control(s.udp, e.host.Refusals)
	}
	udp := s.udp
	e.live.Go(func() { s.receive(udp) })
	return addrOf(c.LocalAddr()), splice.Enough, nil
}

// datagrams are buffers for one datagram each.
var datagrams = sync.Pool{New: func() any { return new([maxDatagram]byte) }}

// receive forwards replies of the endpoint until the socket is closed. With Host.Awaits it has a buffer only while
// there is a reply.
func (s *session) receive(udp *net.UDPConn) {
	raw, err := udp.SyscallConn()
	for more := err == nil; more; {
		err = nil
		if s.u.e.host.Awaits {
			err = await(raw)
		}
		buf, n := datagrams.Get().(*[maxDatagram]byte), 0
		if err == nil {
			n, err = udp.Read(buf[:])
		}
		more = s.answered(udp, buf[:n], err)
		datagrams.Put(buf)
	}
}

// answered handles one reply or error. It returns false if the socket is closed.
func (s *session) answered(udp *net.UDPConn, data []byte, err error) bool {
	s.u.mu.Lock()
	defer s.u.mu.Unlock()
	switch {
	case s.Over() || s.udp != udp || errors.Is(err, net.ErrClosed):
		return false
	case err == nil:
		if s.u.reply(data, s) != nil {
			s.Dropped()
		}
		s.Replied(int64(len(data)), s.u.e.core.Now())
	case tooLarge(err): // an earlier datagram was too large for the way: the next is sent in fragments
		s.Dropped()
	default:
		s.Refused(cause(err), nil)
	}
	return true
}

// Forward implements splice.SessionConn.
func (s *session) Forward(data []byte) {
	if s.Buffer(data) {
		return
	}
	_, err := s.udp.Write(data)
	switch {
	case err == nil:
		s.Sent(len(data))
	case refused(err):
		s.Refused(cause(err), data)
	default:
		s.Dropped()
	}
}

// Close implements splice.SessionConn.
func (s *session) Close() {
	if s.udp != nil {
		s.udp.Close()
		s.udp = nil
	}
}

package goroutine

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

// maxDatagram is the largest datagram there is, in bytes.
const maxDatagram = 64 << 10

// receiveBuffer is that of a bound socket, in bytes, since many clients share it: Windows gives 64 KiB by itself. Linux
// cuts it to net.core.rmem_max.
const receiveBuffer = 1 << 20

// udpSocket is a bound UDP socket of a front. The goroutine that holds mu owns its sessions.
type udpSocket struct {
	e      *shared
	among  *sockets
	udp    *net.UDPConn
	bound  netip.AddrPort
	family inet.Family

	mu       sync.Mutex
	sessions *splice.Sessions
	calls    calls
	timer    *time.Timer // guarded by mu
	stopped  bool        // guarded by mu; no session begins any more
	closed   bool        // guarded by mu
}

func listenUDP(e *shared, among *sockets, f *splice.Front, at netip.AddrPort) (splice.Socket, error) {
	c, err := packetConnAt(e, f.Name(), at)
	if err != nil {
		return nil, cause(err)
	}
	u := &udpSocket{e: e, among: among, udp: c.(*net.UDPConn), bound: at, family: inet.FamilyOf(at.Addr())}
	u.enablePacketInfo()
	_ = u.udp.SetReadBuffer(receiveBuffer)
	u.sessions = splice.NewSessions(f, at.Port(), u)
	among.add(u)
	if !e.start(u.receive) {
		u.shut()
	}
	return u, nil
}

// packetConnAt takes over the socket of a predecessor, or makes one.
func packetConnAt(e *shared, name service.PortName, at netip.AddrPort) (net.PacketConn, error) {
	inherited, err := e.core.Options().Listen(name, at)
	if err != nil {
		return nil, err
	}
	if file := inherited.File; file != nil {
		defer file.Close()
		return net.FilePacketConn(file)
	}
	config := net.ListenConfig{Control: e.listenControl(inet.UDP)}
	return config.ListenPacket(e.ctx, network("udp", at.Addr()), at.String())
}

// enablePacketInfo has each datagram come with its destination address and its interface (IP_PKTINFO). Where the system
// does not tell, it is the address that the socket is bound to.
func (u *udpSocket) enablePacketInfo() {
	if u.family == inet.IPv6 {
		_ = ipv6.NewPacketConn(u.udp).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true)
	} else {
		_ = ipv4.NewPacketConn(u.udp).SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true)
	}
}

// Sessions implements splice.Socket.
func (u *udpSocket) Sessions() splice.SessionTable { return u.sessions }

// Drain implements splice.Socket.
func (u *udpSocket) Drain() { u.sessions.Drain() }

// Close implements splice.Socket.
func (u *udpSocket) Close() { u.Do(u.shut) }

// shut ends the sessions and closes the socket. mu is held.
func (u *udpSocket) shut() {
	if u.closed {
		return
	}
	u.sessions.Close()
	u.closed = true
	u.udp.Close()
	u.sessions.Front().ListenerClosed()
	u.among.remove(u)
}

func (u *udpSocket) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
}

func (u *udpSocket) end() { u.Do(u.shut) }

// Do implements splice.SessionSocket.
func (u *udpSocket) Do(f func()) bool {
	first, ok := u.calls.add(f, u.e)
	if first {
		go u.call()
	}
	return ok
}

// call runs the queue.
func (u *udpSocket) call() {
	for f := u.calls.next(); f != nil; f = u.calls.next() {
		u.mu.Lock()
		f()
		u.mu.Unlock()
		u.e.live.Done()
	}
}

// SetTimer implements splice.SessionSocket.
func (u *udpSocket) SetTimer(at time.Duration) {
	if u.timer != nil {
		u.timer.Stop()
	}
	if at >= 0 {
		u.timer = time.AfterFunc(at-u.e.core.Now(), func() {
			u.Do(func() {
				if !u.closed {
					u.sessions.Sweep(u.e.core.Now())
				}
			})
		})
	}
}

// receive delivers datagrams of clients until the socket is closed.
func (u *udpSocket) receive() {
	buf, oob := make([]byte, maxDatagram), make([]byte, 128)
	for pause := splice.ShortagePause(); ; {
		n, oobn, _, from, err := u.udp.ReadMsgUDPAddrPort(buf, oob)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil && !tooLarge(err) && !refused(err): // which are about one datagram
			_ = backoff.Sleep(u.e.ctx, pause.Next())
		case err == nil:
			pause.Reset()
			local, iface := u.whereTo(oob[:oobn])
			client := netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
			u.mu.Lock()
			u.deliver(buf[:n], splice.SessionKey{Client: client, Local: local}, iface)
			u.mu.Unlock()
		}
	}
}

// whereTo returns the destination address and the interface of a datagram.
func (u *udpSocket) whereTo(oob []byte) (local netip.Addr, iface int) {
	local = u.bound.Addr()
	if len(oob) == 0 { // Windows does not tell, and ControlMessage.Parse panics
		return local, 0
	}
	var dst net.IP
	if u.family == inet.IPv6 {
		var m ipv6.ControlMessage
		if m.Parse(oob) == nil {
			dst, iface = m.Dst, m.IfIndex
		}
	} else {
		var m ipv4.ControlMessage
		if m.Parse(oob) == nil {
			dst, iface = m.Dst, m.IfIndex
		}
	}
	if addr, ok := netip.AddrFromSlice(dst); ok {
		local = addr.Unmap()
	}
	return local, iface
}

// deliver passes a datagram to its session, or opens one. mu is held.
func (u *udpSocket) deliver(data []byte, key splice.SessionKey, iface int) {
	if u.closed {
		return
	}
	now := u.e.core.Now()
	s, ok := u.sessions.Find(key).(*session)
	if !ok {
		if u.stopped {
			return
		}
		s = &session{u: u, key: key, iface: iface}
		if !u.sessions.Open(&s.Session, s, key, iface, now) {
			return
		}
	}
	s.Received(data, now)
	s.Forward(data)
}

// Deliver implements splice.SessionSocket.
func (u *udpSocket) Deliver(data []byte, of splice.SessionConn) {
	s := of.(*session)
	u.deliver(data, s.key, s.iface)
}

// reply sends a datagram to a client, from the address that it wrote to. A link-local one, to which a portal leads if
// the interface of the client has no other, is an address only together with the interface.
func (u *udpSocket) reply(data []byte, s *session) error {
	var oob []byte
	local := s.key.Local
	switch {
	case local == u.bound.Addr():
	case local.Is6() && local.IsLinkLocalUnicast():
		oob = (&ipv6.ControlMessage{Src: local.AsSlice(), IfIndex: s.iface}).Marshal()
	case u.family == inet.IPv6:
		oob = (&ipv6.ControlMessage{Src: local.AsSlice()}).Marshal()
	default:
		oob = (&ipv4.ControlMessage{Src: local.AsSlice()}).Marshal()
	}
	_, _, err := u.udp.WriteMsgUDPAddrPort(data, oob, s.key.Client)
	return err
}

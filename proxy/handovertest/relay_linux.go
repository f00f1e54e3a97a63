// Package handovertest has a relay between two daemons that hand over, which loses, changes or cuts their messages.
package handovertest

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"github.com/portald/portald/platform"
)

// Message is one on its way.
type Message struct {
	FromSuccessor bool
	Number        int // among the messages of this direction, from 0
	Bytes         []byte
	Files         []int // they are closed once the message is sent, even if they are not in here any more
}

// Fate says how the relay treats a message: passes it on, drops it, or ends the connection in its place.
type Fate int

// The fates.
const (
	Arrives Fate = iota // as it is now
	Stays               // it never does
	Ends                // it never does, and both ends find that the other one has ended
)

// Relay stands between a predecessor and its successors.
type Relay struct {
	l    *platform.PrivateListener
	to   string
	fate func(*Message) Fate
	all  sync.WaitGroup
}

// NewRelay listens at a path for successors of the daemon that listens at another. It may change each message before it
// tells its fate. Several may be on their way at a time.
func NewRelay(at, to string, fate func(*Message) Fate) (*Relay, error) {
	l, err := platform.ListenPrivate(platform.PacketSocket, at)
	if err != nil {
		return nil, err
	}
	r := &Relay{l: l, to: to, fate: fate}
	r.all.Go(r.run)
	return r, nil
}

// Close ends it once both ends of each connection have ended theirs.
func (r *Relay) Close() {
	_ = r.l.Close() // it is open
	r.all.Wait()
}

func (r *Relay) run() {
	for {
		successor, err := r.l.AcceptUnix()
		if err != nil {
			return
		}
		predecessor, err := net.DialUnix(platform.PacketSocket, nil, &net.UnixAddr{Name: r.to, Net: platform.PacketSocket})
		if err != nil {
			_ = successor.Close() // nothing was sent
			continue
		}
		for _, c := range []*net.UnixConn{successor, predecessor} {
			_ = c.SetWriteBuffer(2 * largest) // a message that does not fit ends both
		}
		r.all.Go(func() { r.pass(successor, predecessor, true) })
		r.all.Go(func() { r.pass(predecessor, successor, false) })
	}
}

// largest is more than any message is long.
const largest = 256 << 10

// pass passes on all that comes, and the end of it.
func (r *Relay) pass(from, to *net.UnixConn, fromSuccessor bool) {
	defer to.Close()
	bytes, oob := make([]byte, largest), make([]byte, syscall.CmsgSpace(4*253))
	for n := 0; ; n++ {
		size, oobn, _, _, err := from.ReadMsgUnix(bytes, oob)
		if errors.Is(err, syscall.ECONNRESET) { // what was sent before is still here
			size, oobn, _, _, err = from.ReadMsgUnix(bytes, oob)
		}
		files := descriptors(oob[:oobn])
		if err != nil || size == 0 {
			closeAll(files)
			return
		}
		m := &Message{fromSuccessor, n, append([]byte(nil), bytes[:size]...), append([]int(nil), files...)}
		switch r.fate(m) {
		case Arrives:
			var rights []byte
			if len(m.Files) > 0 {
				rights = syscall.UnixRights(m.Files...)
			}
			_, _, err = to.WriteMsgUnix(m.Bytes, rights, nil)
		case Ends:
			err = net.ErrClosed
			_ = from.Close() // to is closed below
		case Stays:
		}
		closeAll(files)
		if err != nil {
			return
		}
	}
}

func descriptors(oob []byte) (files []int) {
	messages, _ := syscall.ParseSocketControlMessage(oob) // the kernel's
	for _, m := range messages {
		some, _ := syscall.ParseUnixRights(&m)
		files = append(files, some...)
	}
	return files
}

func closeAll(files []int) {
	for _, fd := range files {
		_ = syscall.Close(fd) // it is open
	}
}

// Fault spoils a message.
type Fault struct {
	Name  string
	Spoil func(*Message) Fate
}

// Faults are the ways in which a message can be spoilt. Stray is a descriptor that none has.
func Faults(stray int) []Fault {
	arrives := func(name string, change func(*Message)) Fault {
		return Fault{name, func(m *Message) Fate { change(m); return Arrives }}
	}
	return []Fault{
		{"ends", func(*Message) Fate { return Ends }},
		{"stays", func(*Message) Fate { return Stays }},
		arrives("empty", func(m *Message) { m.Bytes, m.Files = nil, nil }),
		arrives("only its kind", func(m *Message) { m.Bytes = m.Bytes[:1] }),
		arrives("half", func(m *Message) { m.Bytes = m.Bytes[:(len(m.Bytes)+1)/2] }),
		arrives("all but a byte", func(m *Message) { m.Bytes = m.Bytes[:max(1, len(m.Bytes)-1)] }),
		arrives("a byte more", func(m *Message) { m.Bytes = append(m.Bytes, 0) }),
		arrives("over-long", func(m *Message) { m.Bytes = append(m.Bytes, make([]byte, 200<<10)...) }),
		arrives("a length without end", func(m *Message) {
			m.Bytes = append(m.Bytes[:1], 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		}),
		arrives("another kind", func(m *Message) { m.Bytes[0] = 200 }),
		arrives("a descriptor fewer", func(m *Message) { m.Files = m.Files[:max(0, len(m.Files)-1)] }),
		arrives("no descriptor", func(m *Message) { m.Files = nil }),
		arrives("a descriptor more", func(m *Message) { m.Files = append(m.Files, stray) }),
	}
}

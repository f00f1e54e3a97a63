package capture

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/portald/portald/platform/packets"
)

// The stream of a capture begins with magic, whose last digit is its version. Then follow messages: the kind, the size
// and the content. A kind that a reader does not know is skipped, so that later versions may add some.
const magic = "portald-capture-1\n"

// The kinds of messages. All but packets are JSON.
const (
	kindInterface  = 'I' // packets.Interface, before its first packet
	kindConnection = 'C' // numbered, before its first packet, and again when more is known of it
	kindPacket     = 'P'
	kindProgress   = 'W' // Progress
	kindEnd        = 'E' // End, the last one
)

// maxMessage bounds a message: a packet of 64 KiB with its header.
const maxMessage = 1 << 18

// headerSize is that of a message, packetHeader that of a packet in it.
const (
	headerSize   = 5
	packetHeader = 8 + 4 + 4 + 4 + 1 + 1
)

// Packet is a captured packet.
type Packet struct {
	Time       int64  // ns of Unix time
	Interface  int    // its index on the node
	Connection uint32 // its number in this capture
	Side       Side
	Outgoing   bool
	Length     int // of the whole packet, of which Data is the begin
	Data       []byte
}

// Progress is said a few times a second.
type Progress struct {
	Before     int64 `json:"before"` // no packet of an earlier time will follow, in ns of Unix time
	Statistics `json:"statistics"`
}

// numbered is a Connection with its number.
type numbered struct {
	Number uint32 `json:"number"`
	*Connection
}

// Writer writes a stream.
type Writer struct {
	to   *bufio.Writer
	room []byte
}

// NewWriter begins a stream.
func NewWriter(to io.Writer) (*Writer, error) {
	w := &Writer{to: bufio.NewWriterSize(to, 64<<10)}
	_, err := w.to.WriteString(magic)
	return w, err
}

// Interface announces an interface.
func (w *Writer) Interface(i packets.Interface) error { return w.json(kindInterface, i) }

// Connection announces a connection, or more that is known of it.
func (w *Writer) Connection(number uint32, c *Connection) error {
	return w.json(kindConnection, numbered{number, c})
}

// Progress says how far the capture is.
func (w *Writer) Progress(p Progress) error { return w.json(kindProgress, p) }

// End ends the stream.
func (w *Writer) End(e End) error { return errors.Join(w.json(kindEnd, e), w.Flush()) }

// Flush sends what is buffered.
func (w *Writer) Flush() error { return w.to.Flush() }

// Packet writes a packet.
func (w *Writer) Packet(p *Packet) error {
	b := binary.BigEndian.AppendUint64(w.room[:0], uint64(p.Time))
	for _, n := range []uint32{uint32(p.Interface), p.Connection, uint32(p.Length)} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	outgoing := byte(0)
	if p.Outgoing {
		outgoing = 1
	}
	b = append(b, byte(p.Side), outgoing)
	w.room = append(b, p.Data...)
	return w.message(kindPacket, w.room)
}

func (w *Writer) json(kind byte, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return w.message(kind, text)
}

func (w *Writer) message(kind byte, content []byte) error {
	if len(content) > maxMessage {
		return fmt.Errorf("a message of %d bytes is too long", len(content))
	}
	var header [headerSize]byte
	header[0] = kind
	binary.BigEndian.PutUint32(header[1:], uint32(len(content)))
	if _, err := w.to.Write(header[:]); err != nil {
		return err
	}
	_, err := w.to.Write(content)
	return err
}

// Receiver gets the messages of a stream; what it is given is valid during the call. An error of it ends Read.
type Receiver interface {
	Interface(packets.Interface) error
	Connection(number uint32, c *Connection) error
	Packet(*Packet) error
	Progress(Progress) error
	End(End) error
}

// ErrCut is the error of a stream without its end.
var ErrCut = errors.New("the capture was cut off before its end")

// maxKnown bounds interfaces and connections of one stream.
const maxKnown = 1 << 21

// Read reads a stream to its end. What is not as Writer writes it is an error.
func Read(from io.Reader, to Receiver) error {
	r := &reader{from: bufio.NewReaderSize(from, 64<<10), to: to, interfaces: map[int]bool{},
		connections: map[uint32]bool{}}
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(r.from, begin); err != nil {
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	if string(begin) != magic {
		return fmt.Errorf("read a capture: it begins with %q, which is not %q: use the command portald of the release "+
			"that runs", begin, magic)
	}
	for {
		kind, content, err := r.message()
		if err != nil {
			return err
		}
		if err := r.handle(kind, content); err != nil {
			return err
		}
		if kind == kindEnd {
			return nil
		}
	}
}

type reader struct {
	from        *bufio.Reader
	to          Receiver
	room        []byte
	interfaces  map[int]bool
	connections map[uint32]bool
}

func (r *reader) message() (kind byte, content []byte, err error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r.from, header[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrCut, err)
	}
	size := binary.BigEndian.Uint32(header[1:])
	if size > maxMessage {
		return 0, nil, fmt.Errorf("read a capture: a message of %d bytes, more than %d", size, maxMessage)
	}
	if cap(r.room) < int(size) {
		r.room = make([]byte, size)
	}
	content = r.room[:size]
	if _, err := io.ReadFull(r.from, content); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrCut, err)
	}
	return header[0], content, nil
}

func (r *reader) handle(kind byte, content []byte) error {
	switch kind {
	case kindInterface:
		return decode(content, func(i packets.Interface) error {
			r.interfaces[i.Index] = true
			return errors.Join(bounded(len(r.interfaces)), r.to.Interface(i))
		})
	case kindConnection:
		return decode(content, func(c numbered) error {
			r.connections[c.Number] = true
			if c.Connection == nil {
				c.Connection = &Connection{}
			}
			return errors.Join(bounded(len(r.connections)), r.to.Connection(c.Number, c.Connection))
		})
	case kindPacket:
		return r.packet(content)
	case kindProgress:
		return decode(content, r.to.Progress)
	case kindEnd:
		return decode(content, r.to.End)
	}
	return nil
}

func decode[T any](content []byte, do func(T) error) error {
	var value T
	if err := json.Unmarshal(content, &value); err != nil {
		return fmt.Errorf("read a capture: %w", err)
	}
	return do(value)
}

func bounded(n int) error {
	if n > maxKnown {
		return fmt.Errorf("read a capture: more than %d interfaces or connections", maxKnown)
	}
	return nil
}

func (r *reader) packet(b []byte) error {
	if len(b) < packetHeader {
		return fmt.Errorf("read a capture: a packet of %d bytes, less than its header", len(b))
	}
	number := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	p := &Packet{
		Time: int64(binary.BigEndian.Uint64(b)), Interface: int(number(8)), Connection: number(12),
		Length: int(number(16)), Side: Side(b[20]), Outgoing: b[21] == 1, Data: b[packetHeader:],
	}
	if !r.interfaces[p.Interface] || !r.connections[p.Connection] || p.Length < len(p.Data) {
		return fmt.Errorf("read a capture: a packet of interface %d, connection %d, with %d of %d bytes, of which the "+
			"stream said nothing before", p.Interface, p.Connection, len(p.Data), p.Length)
	}
	return r.to.Packet(p)
}

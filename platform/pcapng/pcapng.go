// Package pcapng writes files of packets in the format pcapng (draft-ietf-opsawg-pcapng), as Wireshark, tshark and
// tcpdump read them: packets of several interfaces, with comments.
//
//	w, err := pcapng.NewWriter(file, "portald 1.0")
//	i, err := w.Interface(pcapng.Interface{Name: "node-1/eth0", Link: 1})
//	err = w.Packet(pcapng.Packet{Interface: i, Time: t, Length: 1514, Data: data, Comment: "..."})
//	err = w.Flush()
//
// The writer of gopacket is not used for it: with the package layers, which it takes along, it is 1.6 MB of program.
package pcapng

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Interface is where packets were captured.
type Interface struct {
	Name        string
	Description string
	Link        uint16 // LINKTYPE
	Snap        uint32 // the most bytes of a packet that are kept; 0: all
}

// Packet is one packet.
type Packet struct {
	Interface int   // as Writer.Interface numbered it
	Time      int64 // ns of Unix time
	Length    int   // of the whole packet, of which Data is the begin
	Data      []byte
	Outgoing  bool
	Comment   string
}

// Statistics are of a capture that ends.
type Statistics struct {
	Time              int64 // ns of Unix time
	Received, Dropped uint64
	Comment           string
}

// Types of blocks and options.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6

	optionComment     = 1
	optionName        = 2 // of an interface
	optionDescription = 3
	optionFlags       = 2 // of a packet
	optionApplication = 4 // of a section
	optionReceived    = 4 // of statistics
	optionDropped     = 5
	optionResolution  = 9
)

// maxComment bounds a comment: an option has at most 65,535 bytes.
const maxComment = 4096

// Writer writes one section. Its methods return the first error of the output.
type Writer struct {
	to         *bufio.Writer
	block      []byte // that is made, to be used again
	interfaces int
}

// NewWriter begins a section.
func NewWriter(to io.Writer, application string) (*Writer, error) {
	w := &Writer{to: bufio.NewWriterSize(to, 64<<10)}
	w.begin(blockSection)
	w.uint32(0x1a2b3c4d)
	w.uint32(1)                  // version 1.0, little-endian
	w.uint64(0xffffffffffffffff) // the length is not known
	w.text(optionApplication, application)
	return w, w.end()
}

// Interface adds an interface, and returns its number.
func (w *Writer) Interface(i Interface) (int, error) {
	w.begin(blockInterface)
	w.uint32(uint32(i.Link))
	w.uint32(i.Snap)
	w.text(optionName, i.Name)
	w.text(optionDescription, i.Description)
	w.option(optionResolution, []byte{9}) // ns
	w.interfaces++
	return w.interfaces - 1, w.end()
}

// Packet adds a packet.
func (w *Writer) Packet(p Packet) error {
	if p.Interface < 0 || p.Interface >= w.interfaces {
		return fmt.Errorf("write a packet of interface %d: there are %d", p.Interface, w.interfaces)
	}
	w.begin(blockPacket)
	w.uint32(uint32(p.Interface))
	w.time(p.Time)
	w.uint32(uint32(len(p.Data)))
	w.uint32(uint32(max(p.Length, len(p.Data))))
	w.padded(p.Data)
	direction := uint32(1)
	if p.Outgoing {
		direction = 2
	}
	w.option(optionFlags, binary.LittleEndian.AppendUint32(nil, direction))
	w.text(optionComment, p.Comment)
	return w.end()
}

// Statistics adds what is known of an interface at the end.
func (w *Writer) Statistics(of int, s Statistics) error {
	w.begin(blockStatistics)
	w.uint32(uint32(of))
	w.time(s.Time)
	w.option(optionReceived, binary.LittleEndian.AppendUint64(nil, s.Received))
	w.option(optionDropped, binary.LittleEndian.AppendUint64(nil, s.Dropped))
	w.text(optionComment, s.Comment)
	return w.end()
}

// Flush writes what is buffered.
func (w *Writer) Flush() error { return w.to.Flush() }

func (w *Writer) begin(kind uint32) {
	w.block = w.block[:0]
	w.uint32(kind)
	w.uint32(0) // the length: see end
}

// end ends the options, sets the length of the block, and writes it.
func (w *Writer) end() error {
	w.uint32(0)
	length := uint32(len(w.block) + 4)
	binary.LittleEndian.PutUint32(w.block[4:], length)
	w.uint32(length)
	_, err := w.to.Write(w.block)
	return err
}

func (w *Writer) uint32(n uint32) { w.block = binary.LittleEndian.AppendUint32(w.block, n) }

func (w *Writer) uint64(n uint64) { w.block = binary.LittleEndian.AppendUint64(w.block, n) }

// time writes a time as its upper and lower half.
func (w *Writer) time(ns int64) {
	w.uint32(uint32(uint64(ns) >> 32))
	w.uint32(uint32(uint64(ns)))
}

func (w *Writer) padded(b []byte) {
	w.block = append(w.block, b...)
	for range -len(b) & 3 {
		w.block = append(w.block, 0)
	}
}

func (w *Writer) option(code uint16, value []byte) {
	w.block = binary.LittleEndian.AppendUint16(w.block, code)
	w.block = binary.LittleEndian.AppendUint16(w.block, uint16(len(value)))
	w.padded(value)
}

// text writes an option that is a text, unless it is empty.
func (w *Writer) text(code uint16, text string) {
	if text != "" {
		w.option(code, []byte(text[:min(len(text), maxComment)]))
	}
}

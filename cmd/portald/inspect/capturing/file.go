package capturing

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/portald/portald/platform/packets"
	"github.com/portald/portald/platform/pcapng"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/capture"
)

// errEnough ends a capture of several nodes that has all that was asked for.
var errEnough = errors.New("enough")

// file writes packets as pcapng.
type file struct {
	*pcapng.Writer
	interfaces map[place]*written
	order      []*written
	packets    int64
	most       int64
}

// place is an interface of a node, with the kind of its frames.
type place struct {
	of    *stream
	index int
	link  packets.Link
}

// written is an interface in the file.
type written struct {
	place
	number  int
	packets uint64
}

func newFile(to io.Writer, most int64) (*file, error) {
	w, err := pcapng.NewWriter(to, "portald capture")
	return &file{Writer: w, interfaces: map[place]*written{}, most: most}, err
}

// packet implements sink.
func (f *file) packet(w *waiting) error {
	if f.packets >= f.most {
		return errEnough
	}
	i, err := f.interfaceOf(w)
	if err != nil {
		return err
	}
	f.packets++
	i.packets++
	return f.Packet(pcapng.Packet{Interface: i.number, Time: w.Time, Length: w.Length, Data: w.Data,
		Outgoing: w.Outgoing, Comment: comment(w.connection(), w.Side)})
}

// flush implements sink.
func (f *file) flush() error { return f.Flush() }

func (f *file) interfaceOf(w *waiting) (*written, error) {
	at := place{w.from, w.at.Index, w.at.Link}
	if known := f.interfaces[at]; known != nil {
		return known, nil
	}
	name := printable.Text(w.at.Name)
	if w.from.node != "" {
		name = printable.Text(w.from.node) + "/" + name
	}
	number, err := f.Interface(pcapng.Interface{Name: name, Link: uint16(at.link)})
	if err != nil {
		return nil, err
	}
	i := &written{place: at, number: number}
	f.interfaces[at] = i
	f.order = append(f.order, i)
	return i, nil
}

// finish writes what is known at the end. The kernel counts what it drops for all interfaces of a node together: the
// first one has the count.
func (f *file) finish() error {
	told := map[*stream]bool{}
	for _, i := range f.order {
		s := pcapng.Statistics{Time: time.Now().UnixNano(), Received: i.packets}
		if total := i.of.statistics(); !told[i.of] {
			told[i.of] = true
			s.Dropped = total.KernelDropped
			s.Comment = "of all interfaces of the node: " + dropped(total)
		}
		if err := f.Statistics(i.number, s); err != nil {
			return err
		}
	}
	return f.Flush()
}

// comment says whose packet it is.
func comment(c *capture.Connection, side capture.Side) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s", c.Service, side)
	switch {
	case c.ID != 0:
		fmt.Fprintf(&b, ", record %d", c.ID)
	case c.CarriedBy == "":
		b.WriteString(", carried by nobody")
	}
	if c.CarriedBy == "kernel" {
		b.WriteString(", carried by the kernel")
	}
	fmt.Fprintf(&b, "; client %s", c.Client)
	if c.ClientPod != "" {
		fmt.Fprintf(&b, " (%s)", c.ClientPod)
	}
	if c.Frontend.IsValid() {
		fmt.Fprintf(&b, ", frontend %s", c.Frontend)
	}
	if c.Endpoint.IsValid() {
		fmt.Fprintf(&b, ", endpoint %s", c.Endpoint)
	}
	if c.Pod != "" {
		fmt.Fprintf(&b, " (%s)", c.Pod)
	}
	if c.Outcome != "" {
		fmt.Fprintf(&b, ", outcome %s", c.Outcome)
	}
	return printable.Text(b.String())
}

// dropped says what became of packets that are not in the file.
func dropped(s capture.Statistics) string {
	parts := []string{fmt.Sprintf("the kernel dropped %d of %d", s.KernelDropped, s.KernelSeen)}
	add := func(n int64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(s.Evicted, "found no room while they waited for their connection's record")
	add(s.Open, "are of connections that were still open")
	add(s.Unwanted, "are of other connections")
	if s.Untracked > 0 {
		parts = append(parts, fmt.Sprintf("of %d connections nothing is known, since there were too many", s.Untracked))
	}
	return strings.Join(parts, ", ")
}

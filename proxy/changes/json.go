package changes

import (
	"net/netip"
	"time"

	"github.com/portald/portald/platform/printable"
)

// Line is a Change as JSON shows it.
type Line struct {
	Time     time.Time `json:"time"`
	Kind     Kind      `json:"kind"`
	Service  string    `json:"service,omitempty"` // namespace/name:port; empty: of the node
	Protocol string    `json:"protocol,omitempty"`
	Endpoint string    `json:"endpoint,omitempty"`
	Pod      string    `json:"pod,omitempty"`
	What     string    `json:"what,omitempty"`
	Old      string    `json:"old,omitempty"`
	New      string    `json:"new,omitempty"`
	Text     string    `json:"text"` // all but the time, in words

	PortaldNode string `json:"portald_node,omitempty"` // where it changed, where several nodes were asked
}

// Line returns the change as JSON shows it.
func (c *Change) Line() Line {
	l := Line{Time: c.Time.UTC(), Kind: c.Kind, Pod: c.Pod, What: c.What, Old: c.Old, New: c.New, Text: c.Text()}
	if c.Service.Name != "" {
		l.Service, l.Protocol = c.Service.Label(), c.Service.Protocol.String()
	}
	if c.Endpoint != (netip.AddrPort{}) {
		l.Endpoint = c.Endpoint.String()
	}
	return l
}

// Print returns the line for people, harmless for a terminal, without its end. The time is UTC, as in records.
func (l *Line) Print() string {
	text := l.Text
	if l.PortaldNode != "" {
		text = l.PortaldNode + " " + text
	}
	return l.Time.UTC().Format("2006-01-02 15:04:05.000 ") + printable.Text(text)
}

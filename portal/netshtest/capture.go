package netshtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// captureFormat is the number of the format that is read.
const captureFormat = 1

// Capture records the netsh and the network of a real node. The package comment shows one.
type Capture struct {
	Format        int         `json:"format"`
	Windows       string      `json:"windows"`     // its version
	Culture       string      `json:"culture"`     // the language of its system
	CodePage      int         `json:"oemCodePage"` // of Output
	Interfaces    []Interface `json:"interfaces"`
	ExcludedPorts []PortRange `json:"excludedPorts"`
	Runs          []Captured  `json:"runs"`
	HNS           []HNSObject `json:"hns"`
	Dials         []Dial      `json:"dials"`
	PodDials      []PodDial   `json:"podDials"`
	Timings       []Timing    `json:"timings"`
}

// HNSObject is an object of the Host Networking Service: its document in JSON, or why it could not be read.
type HNSObject struct {
	Kind     string `json:"kind"` // Network, LoadBalancer or Endpoint
	Document string `json:"document"`
	Error    string `json:"error"`
}

// Dial is an attempt to connect by TCP.
type Dial struct {
	To           string  `json:"to"`           // address and port
	From         string  `json:"from"`         // node
	Error        int     `json:"connectError"` // 0: it was accepted, -1: nobody answered
	Milliseconds float64 `json:"milliseconds"`
}

// Captured is one process of netsh. Name is one of Said, or another word for another output worth seeing: for one with
// a script it is "script", and Script has its text.
type Captured struct {
	Name         Said     `json:"name"`
	Arguments    []string `json:"arguments"`
	Script       string   `json:"script,omitempty"`
	ExitCode     int      `json:"exitCode"`
	Milliseconds float64  `json:"milliseconds"` // from start to end
	Output       []byte   `json:"output"`
}

// PodDial is an attempt of a container to connect to an address that was added to its node.
type PodDial struct {
	To           string  `json:"to"`
	From         string  `json:"from"`       // id of the container
	Forwarding   string  `json:"forwarding"` // of the interface: Enabled or Disabled
	Client       string  `json:"client"`     // the address that the node saw; empty: the connection did not arrive
	ExitCode     int     `json:"exitCode"`   // of curl: 52 and 56 tell that there was no answer, 28 that nobody accepted
	Milliseconds float64 `json:"milliseconds"`
}

// Timing is how long it took to change many addresses.
type Timing struct {
	Way          string  `json:"way"`  // call or netsh
	Verb         string  `json:"verb"` // add or delete
	Count        int     `json:"count"`
	Present      int     `json:"present"`   // of these, afterwards
	LastError    int     `json:"lastError"` // of a call; 0: none failed
	Milliseconds float64 `json:"milliseconds"`
}

// address is an Address as captures write it.
type address struct {
	Address      netip.Addr `json:"address"`
	PrefixLength int        `json:"prefixLength"`
	State        State      `json:"state"`
}

// MarshalJSON writes it as captures have it.
func (a Address) MarshalJSON() ([]byte, error) {
	return json.Marshal(address{a.Prefix.Addr(), a.Prefix.Bits(), a.State})
}

// UnmarshalJSON reads it from a capture.
func (a *Address) UnmarshalJSON(text []byte) error {
	var x address
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	a.Prefix, a.State = netip.PrefixFrom(x.Address.WithZone(""), x.PrefixLength), x.State
	if !a.Prefix.IsValid() {
		return fmt.Errorf("address %s with prefix length %d", x.Address, x.PrefixLength)
	}
	return nil
}

// ReadCapture reads a capture, and refuses what is not one.
func ReadCapture(text []byte) (c Capture, err error) {
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\uFEFF")), &c); err != nil {
		return c, fmt.Errorf("read capture: %w", err)
	}
	if c.Format != captureFormat {
		return c, fmt.Errorf("read capture: format %d: want %d", c.Format, captureFormat)
	}
	if len(c.Interfaces) == 0 || len(c.Runs) == 0 {
		return c, fmt.Errorf("read capture: %d interfaces and %d runs: want some of both", len(c.Interfaces), len(c.Runs))
	}
	return c, nil
}

// NewFromCapture returns a Netsh for a Memory with the node of the capture. It takes the time, and says the words, of
// the captured one; what was not captured it says in English.
func NewFromCapture(c Capture) *Netsh {
	m := &Memory{Excluded: slices.Clone(c.ExcludedPorts), interfaces: slices.Clone(c.Interfaces)}
	n := &Netsh{Host: m, captured: map[Said]Result{}}
	for _, r := range c.Runs {
		if !slices.Contains(Everything(), r.Name) {
			continue
		}
		n.captured[r.Name] = Result{r.Output, r.ExitCode}
		n.PerCall = max(n.PerCall, time.Duration(r.Milliseconds*float64(time.Millisecond)))
	}
	return n
}

package netshtest

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Host has the addresses that a Netsh shows and changes. Any goroutine may call it.
type Host interface {
	Interfaces() ([]Interface, error)
	// Add adds an address to an interface. ErrExists: some interface has it.
	Add(index int, addr netip.Prefix) error
	// Remove removes it. ErrNotFound: that interface does not have it.
	Remove(index int, addr netip.Addr) error
}

// The errors of a Host that a Netsh has texts for.
var (
	ErrExists   = errors.New("the address exists")
	ErrNotFound = errors.New("there is no such address")
)

// Interface is a network interface.
type Interface struct {
	Name      string    `json:"name"`
	Index     int       `json:"index"`
	Addresses []Address `json:"addresses"`
}

// Address is an address of an interface.
type Address struct {
	Prefix netip.Prefix
	State  State
}

// State is the state of duplicate-address detection, in the words of PowerShell's Get-NetIPAddress.
type State string

// The states of addresses.
const (
	Preferred State = "Preferred"
	Tentative State = "Tentative"
	Duplicate State = "Duplicate"
)

// Memory is a Host that exists nowhere else. The zero value has no interfaces.
type Memory struct {
	// Detection is how long an added address is tentative.
	Detection time.Duration
	// Taken are addresses that another host of the network has.
	Taken []netip.Addr
	// Excluded are port ranges that no socket is bound in.
	Excluded []PortRange

	mu         sync.Mutex
	interfaces []Interface
	added      map[netip.Addr]time.Time
	sockets    map[Socket]bool
}

// PortRange is a range of ports that Windows keeps: "netsh interface ipv4 show excludedportrange" lists them.
type PortRange struct {
	Family   string `json:"family"`   // ipv4 or ipv6
	Protocol string `json:"protocol"` // tcp or udp
	First    uint16 `json:"first"`
	Last     uint16 `json:"last"`
}

// Socket is one that listens.
type Socket struct {
	Protocol string // tcp or udp
	Addr     netip.AddrPort
}

// Plug adds an interface with addresses that are usable at once.
func (m *Memory) Plug(name string, index int, addrs ...string) {
	i := Interface{Name: name, Index: index}
	for _, a := range addrs {
		i.Addresses = append(i.Addresses, Address{netip.MustParsePrefix(a), Preferred})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.interfaces = append(m.interfaces, i)
}

// Unplug removes an interface.
func (m *Memory) Unplug(index int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.interfaces = slices.DeleteFunc(m.interfaces, func(i Interface) bool { return i.Index == index })
}

// Interfaces returns all, with the present states of their addresses.
func (m *Memory) Interfaces() ([]Interface, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Clone(m.interfaces)
	for i := range out {
		out[i].Addresses = slices.Clone(out[i].Addresses)
		for k, a := range out[i].Addresses {
			out[i].Addresses[k].State = m.stateOf(a)
		}
	}
	return out, nil
}

// stateOf is Preferred for an address whose detection is over.
func (m *Memory) stateOf(a Address) State {
	added, detects := m.added[a.Prefix.Addr()]
	switch {
	case !detects:
		return a.State
	case time.Since(added) < m.Detection:
		return Tentative
	case slices.Contains(m.Taken, a.Prefix.Addr()):
		return Duplicate
	}
	return Preferred
}

// Add adds an address, which is tentative at first if Detection says so.
func (m *Memory) Add(index int, addr netip.Prefix) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	to := -1
	for i, x := range m.interfaces {
		if slices.ContainsFunc(x.Addresses, func(a Address) bool { return a.Prefix.Addr() == addr.Addr() }) {
			return ErrExists
		}
		if x.Index == index {
			to = i
		}
	}
	if to < 0 {
		return ErrNotFound
	}
	if m.added == nil {
		m.added = map[netip.Addr]time.Time{}
	}
	m.added[addr.Addr()] = time.Now()
	m.interfaces[to].Addresses = append(m.interfaces[to].Addresses, Address{addr, Preferred})
	return nil
}

// Remove removes an address. Sockets that are bound to it stay, and nobody reaches them any more: see Reach.
func (m *Memory) Remove(index int, addr netip.Addr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, x := range m.interfaces {
		k := slices.IndexFunc(x.Addresses, func(a Address) bool { return a.Prefix.Addr() == addr })
		if k < 0 || x.Index != index {
			continue
		}
		m.interfaces[i].Addresses = slices.Delete(slices.Clone(x.Addresses), k, k+1)
		delete(m.added, addr)
		for s := range m.sockets {
			if s.Addr.Addr() == addr {
				m.sockets[s] = false
			}
		}
		return nil
	}
	return ErrNotFound
}

// The error numbers of Windows sockets.
const (
	notAvailable = syscall.Errno(10049)
	inUse        = syscall.Errno(10048)
	forbidden    = syscall.Errno(10013)
)

// Bind binds a socket, with the errors of Windows: the address is not usable, the port is excluded, or in use.
func (m *Memory) Bind(s Socket) error {
	interfaces, _ := m.Interfaces()
	m.mu.Lock()
	defer m.mu.Unlock()
	usable := slices.ContainsFunc(interfaces, func(i Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(a Address) bool {
			return a.Prefix.Addr() == s.Addr.Addr() && a.State == Preferred
		})
	})
	_, taken := m.sockets[s]
	switch {
	case !usable:
		return notAvailable
	case slices.ContainsFunc(m.Excluded, func(r PortRange) bool { return r.contains(s) }):
		return forbidden
	case taken:
		return inUse
	}
	if m.sockets == nil {
		m.sockets = map[Socket]bool{}
	}
	m.sockets[s] = true
	return nil
}

func (r PortRange) contains(s Socket) bool {
	return r.Protocol == s.Protocol && (r.Family == "ipv6") == s.Addr.Addr().Is6() && r.First <= s.Addr.Port() &&
		s.Addr.Port() <= r.Last
}

// Release closes a socket.
func (m *Memory) Release(s Socket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sockets, s)
}

// Reach tells whether clients reach a socket: it is bound, and its address was not removed since.
func (m *Memory) Reach(s Socket) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sockets[s]
}

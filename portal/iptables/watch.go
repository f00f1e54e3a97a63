package iptables

import (
	"bytes"
	"slices"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/writer"
)

// watch is a host whose changes by others are noticed, which is told of ours.
type watch interface {
	writer.Watch
	// Wrote takes in that so many transactions were ours.
	Wrote(transactions int) error
}

// observe has the Writer notice what others change: in the nft variant by the transactions that the kernel counts, in
// the legacy one by the sizes of tables. Without either, an audit looks at everything each time.
func (w *Writer) observe() {
	if !w.hosts[0].nft {
		w.watchBy(&sizes{hosts: w.hosts, read: platform.XTables}, nil)
		return
	}
	conn, err := nfnl.Dial()
	if err != nil {
		return
	}
	for _, h := range w.hosts {
		h.lists = listChains(conn, h.ip)
	}
	var witness *writer.Witness // nil: it sees nobody
	if l, err := nfnl.NewWitness(w.hosts[0].nat.namesOurs); err == nil {
		witness = writer.NewWitness(l, platform.Parent)
	}
	w.watchBy(&generations{conn: conn, hosts: w.hosts}, witness)
}

// namesOurs tells whether a message has the name of a chain of ours in it: of the chain itself, or in a rule of it or
// that leads there.
func (c chains) namesOurs(m nfnl.Message) bool {
	prefix := []byte(c.prefix + "-")
	for rest := m.Data; ; {
		i := bytes.Index(rest, prefix)
		if i < 0 {
			return false
		}
		name, _, _ := bytes.Cut(rest[i:], []byte{0})
		if c.own(string(name)) {
			return true
		}
		rest = rest[i+len(prefix):]
	}
}

func (w *Writer) watchBy(is watch, witness *writer.Witness) {
	for _, h := range w.hosts {
		h.wroteOne = func() { _ = is.Wrote(1) } // after an error what others may have changed is looked at
	}
	w.families.Observe(is, witness)
}

// generations are the transactions of nf_tables, which the kernel counts. While none came but ours, all is as written.
// An audit that looked at a part is no proof of that, and enough until the next transaction of others.
type generations struct {
	conn  *nfnl.Conn
	hosts []*host
	seen  uint32 // after the last write or audit; 0: others were in between
}

func (g *generations) Watch() error {
	err := g.conn.Watch()
	g.seen, _, _ = g.conn.Unchanged()
	return err
}

func (g *generations) Unchanged() (id uint32, same bool, err error) { return g.conn.Unchanged() }

func (g *generations) Verified(id uint32) {
	g.seen = id
	if slices.ContainsFunc(g.hosts, (*host).glances) {
		id = 0
	}
	g.conn.Verified(id)
}

func (g *generations) Wrote(ours int) error {
	err := g.conn.Wrote(ours)
	id, _, _ := g.conn.Unchanged()
	if g.seen == 0 || id != g.seen+uint32(ours) {
		id = 0
	}
	g.seen = id
	return err
}

func (g *generations) Disturbed() bool {
	id, _, err := g.conn.Unchanged()
	return err == nil && id != g.seen
}

// sizes are the sizes of tables, of the legacy variant: every change of a rule reads and writes the whole table. They
// are a sign, and no proof, that nobody else did.
type sizes struct {
	hosts []*host
	read  func(family inet.Family, table string) (platform.XTablesSize, error)
	seen  map[tableOf]platform.XTablesSize // before the audit under way
	known map[tableOf]platform.XTablesSize // after the last write or audit
}

type tableOf struct {
	family inet.Family
	name   string
}

func (s *sizes) Watch() error                     { return nil }
func (s *sizes) Unchanged() (uint32, bool, error) { s.seen = s.now(); return 0, false, nil }
func (s *sizes) Verified(uint32)                  { s.known = s.seen }
func (s *sizes) Wrote(int) error                  { s.known = s.now(); return nil }

// Disturbed tells whether a table has another size than after the last write or audit.
func (s *sizes) Disturbed() bool {
	for t, is := range s.now() {
		if was, ok := s.known[t]; ok && was != is {
			return true
		}
	}
	return false
}

func (s *sizes) now() map[tableOf]platform.XTablesSize {
	out := map[tableOf]platform.XTablesSize{}
	for _, h := range s.hosts {
		for _, t := range h.written() {
			if size, err := s.read(h.ip, t.name); err == nil {
				out[tableOf{h.ip, t.name}] = size
			}
		}
	}
	return out
}

package netfilter

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"

	"github.com/portald/portald/platform"
)

// Reader reads the rules of this host by the commands that it has. The zero Reader reads all.
type Reader struct {
	// Run runs a command; default platform.Run.
	Run func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error)
	// Tables lists the tables of nftables; default by netlink. The command nft would read all rules of all of them.
	Tables func() ([]*Table, error)
	// SkipChain tells which chains of iptables-nft are one's own, and may be left out if there are many; default none.
	SkipChain func(name string) bool
	// SkipTable tells which tables of nftables to leave out, as large ones whose rules are known; default none.
	SkipTable func(family, table string) bool
}

// Read returns the rules of all programs. It names the parts that cannot be read: a command that fails, hangs until ctx
// ends, or is not installed.
func (r Reader) Read(ctx context.Context) *Ruleset {
	if r.Run == nil {
		r.Run = platform.Run
	}
	if r.Tables == nil {
		r.Tables = listTables
	}
	if r.SkipTable == nil {
		r.SkipTable = func(string, string) bool { return false }
	}
	out := &Ruleset{}
	r.readSaved(ctx, out)
	r.readListed(ctx, out)
	return out
}

// readSaved reads the tables of iptables. A host with one variant may lack the commands that name it.
func (r Reader) readSaved(ctx context.Context, out *Ruleset) {
	for _, family := range []string{"ip", "ip6"} {
		command := family + "tables"
		found := r.save(ctx, out, command+"-nft-save", IPTablesNFT, family)
		found = r.save(ctx, out, command+"-legacy-save", IPTablesLegacy, family) || found
		if !found && !r.save(ctx, out, command+"-save", IPTables, family) {
			out.Unread = append(out.Unread, command+"-save is not installed: rules of iptables that others wrote are not seen")
		}
	}
}

// save returns false if there is no such command.
func (r Reader) save(ctx context.Context, out *Ruleset, command string, program Program, family string) bool {
	text, err := r.print(ctx, command, program)
	if errors.Is(err, exec.ErrNotFound) {
		return false
	}
	if err != nil {
		out.Unread = append(out.Unread, err.Error())
		return true
	}
	out.Tables = append(out.Tables, ParseSaved(string(text), program, family)...)
	return true
}

// readListed reads the tables of nftables, but those that iptables-nft-save has printed.
func (r Reader) readListed(ctx context.Context, out *Ruleset) {
	tables, err := r.Tables()
	if err != nil {
		out.Unread = append(out.Unread, err.Error())
	}
	r.readTables(ctx, out, tables)
}

func (r Reader) readTables(ctx context.Context, out *Ruleset, tables []*Table) {
	saved := slices.Clone(out.Tables)
	for _, t := range tables {
		if slices.ContainsFunc(saved, func(s *Table) bool {
			return s.Program == IPTablesNFT && s.Family == t.Family && s.Name == t.Name
		}) {
			continue
		}
		out.Tables = append(out.Tables, t)
		if r.SkipTable(t.Family, t.Name) {
			continue
		}
		what, err := r.readTable(ctx, t)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			out.Unread = append(out.Unread, fmt.Sprintf("nft is not installed: %s of %s are not seen", what, t))
		case err != nil:
			out.Unread = append(out.Unread, unseen(ctx, what, t, err))
		}
	}
}

// unseen says what of a table is not seen, and why. An nft that is older than the program that wrote a table fails on
// what it does not know, and may crash.
func unseen(ctx context.Context, what string, t *Table, err error) string {
	text := fmt.Sprintf("%s of %s are not seen, though the kernel applies them: %v", what, t, err)
	if ctx.Err() == nil {
		text += "; if nft is older than the program that wrote the table, update the package nftables"
	}
	return text
}

// readTable lists a table twice: matches are read from the JSON, which lacks the text that people know. It returns what
// is not seen on an error.
func (r Reader) readTable(ctx context.Context, t *Table) (what string, err error) {
	args := []string{"--json", "--handle", "list", "table", t.Family, t.Name}
	text, err := r.Run(ctx, "nft", args, nil)
	if err != nil {
		return "rules", err
	}
	l, err := parseListing(text)
	if err != nil {
		return "rules", err
	}
	text, err = r.Run(ctx, "nft", args[1:], nil)
	t.fill(l, parseText(string(text)))
	return "texts of rules", err
}

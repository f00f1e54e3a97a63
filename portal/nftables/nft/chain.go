package nft

import (
	"bytes"
	"fmt"

	"github.com/portald/portald/platform/nfnl"
)

// Chain is a chain with its rules; with a hook the kernel enters it by itself.
type Chain struct {
	Name  string
	Hook  *Hook
	Rules []Rule
}

// Hook is where packets enter a base chain. Priorities are numbers: old versions of nft refuse some of their names.
type Hook struct {
	Kind     string // "nat" or "filter"
	At       string
	Priority int
}

func hookNumbers() map[string]uint32 {
	return map[string]uint32{
		"prerouting":  nfnl.NF_INET_PRE_ROUTING,
		"input":       nfnl.NF_INET_LOCAL_IN,
		"forward":     nfnl.NF_INET_FORWARD,
		"output":      nfnl.NF_INET_LOCAL_OUT,
		"postrouting": nfnl.NF_INET_POST_ROUTING,
	}
}

// Text declares it with its rules.
func (c Chain) Text(b *bytes.Buffer, f Family) {
	fmt.Fprintf(b, "\tchain %s {\n", c.Name)
	if c.Hook != nil {
		fmt.Fprintf(b, "\t\ttype %s hook %s priority %d; policy accept;\n", c.Hook.Kind, c.Hook.At, c.Hook.Priority)
	}
	for _, r := range c.Rules {
		fmt.Fprintf(b, "\t\t%s\n", r.Text(f))
	}
	b.WriteString("\t}\n")
}

// At is the hook of a base chain: its kind ("nat" or "filter"), where packets enter it, and its priority.
func At(kind, at string, priority int) *Hook { return &Hook{kind, at, priority} }

package inspect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
)

// The outputs of records, beside outputJSON and outputTable.
const (
	outputCompact = "compact"
	outputDict    = "dict"
)

// recordPrinter prints records as they come.
type recordPrinter struct {
	out    *bufio.Writer
	errOut io.Writer
	line   []byte
	append func(b []byte, l *connlog.Line) []byte // the text of a record; nil: a row of the table
	table  *table[connlog.Line]
	live   bool    // print each at once
	groups *groups // records are added to these, in the place of all that; nil: they are printed

	headers bool // are to be printed yet
	printed bool // something was
}

// newRecordPrinter returns a printer. One of records that are live prints each at once, in a table with columns that
// grow; else the table is aligned over all of them.
func newRecordPrinter(dial *Dial, output string, headers, live bool, out, errOut io.Writer) *recordPrinter {
	p := &recordPrinter{out: bufio.NewWriterSize(out, 64<<10), errOut: errOut, live: live, headers: headers}
	color := colored(out)
	switch output {
	case outputTable:
		p.table = newTable(recordColumns(dial, live), false)
		p.table.color = color
	case outputJSON:
		p.append = appendJSON
	case outputDict:
		p.append = appendDict
	default:
		p.append = func(b []byte, l *connlog.Line) []byte { return appendCompact(b, l, color) }
	}
	return p
}

func (p *recordPrinter) print(l *connlog.Line) error {
	p.printed = true
	if p.groups != nil {
		p.groups.addRecord(l)
		return nil
	}
	if p.table != nil {
		p.table.add(l)
	} else {
		p.line = p.append(p.line[:0], l)
		p.out.Write(p.line) // Flush returns its error
	}
	if p.live {
		return p.flush()
	}
	return nil
}

// gap says that records are missing at this place: the daemon does not wait for one who reads slowly.
func (p *recordPrinter) gap(g adminsocket.Gap) error {
	if err := p.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.errOut, "%d records are missing here%s: they came faster than they were read\n", g.Missed,
		onNode(g.PortaldNode))
	return err
}

// reach says how far back a node's records reach.
func (p *recordPrinter) reach(r *adminsocket.Reach) error {
	if err := p.flush(); err != nil {
		return err
	}
	_, err := io.WriteString(p.errOut, reachText(r))
	return err
}

// flush prints what waits.
func (p *recordPrinter) flush() error {
	if p.table != nil && p.table.rows() > 0 {
		if err := p.table.flush(p.out, p.headers); err != nil {
			return err
		}
		p.headers = false
	}
	return p.out.Flush()
}

func appendJSON(b []byte, l *connlog.Line) []byte {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // a Line is made of texts and finite numbers
	}
	return append(append(b, printable.JSON(text)...), '\n')
}

package inspect

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
)

// args takes ids of records with --payload, and nothing else.
func (t *tail) args(cmd *cobra.Command, given []string) error {
	if !t.payload {
		return flagsOnly(cmd, given)
	}
	for _, text := range given {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return usage("%s: must be the id of a record, a number; Services are chosen by --service", printable.Text(text))
		}
		t.ids = append(t.ids, id)
	}
	return nil
}

// checkPayload refuses what --payload cannot be meant with.
func (t *tail) checkPayload(output string) error {
	switch {
	case t.follow:
		return usage("--payload: is of connections that have ended; omit --follow")
	case len(t.files) > 0:
		return usage("--payload: is in the memory of the daemon alone; omit --input-file")
	case t.by.word != "" || t.changes:
		return usage("--payload: is printed behind each record; omit --group-by and --changes")
	case output == outputTable:
		return usage("--payload: is printed behind each record; omit -o table")
	}
	return nil
}

// fetchPayload prints the connections of which payload is kept, with that.
func (t *tail) fetchPayload(ctx context.Context, dial *Dial, p *recordPrinter, output string) error {
	client := dial.Client()
	defer client.Close()
	last := t.last
	if len(t.ids) > 0 {
		last = everything
	}
	var nodes []adminsocket.PayloadKept
	print := t.limitedPayload(func(one *adminsocket.Payload) error {
		p.printed = true
		if output == outputJSON {
			p.line = appendPayloadJSON(p.line[:0], one)
		} else {
			p.line = appendPayload(p.append(p.line[:0], one.Record), one)
		}
		_, err := p.out.Write(p.line)
		return err
	})
	err := client.Payload(ctx, adminsocket.PayloadQuery{Filter: t.filter, IDs: t.ids, Last: last},
		func(k adminsocket.PayloadKept) error {
			nodes = append(nodes, k)
			return nil
		}, print)
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err = errors.Join(p.flush(), err); err != nil {
		return err
	}
	_, err = io.WriteString(p.errOut, t.aboutPayload(nodes, p.printed))
	return err
}

// limitedPayload is limited of payload.
func (t *tail) limitedPayload(print func(*adminsocket.Payload) error) func(*adminsocket.Payload) error {
	left := t.first
	return func(one *adminsocket.Payload) error {
		if err := print(one); err != nil {
			return err
		}
		if left--; left == 0 {
			return errEnough
		}
		return nil
	}
}

// aboutPayload says what is not there any more, and why nothing is there.
func (t *tail) aboutPayload(nodes []adminsocket.PayloadKept, printed bool) string {
	var out strings.Builder
	services := 0
	for _, n := range nodes {
		services += n.Services
		if n.Dropped > 0 {
			fmt.Fprintf(&out, "The payload of %d connections was dropped%s: the oldest go when there is more than %s.\n",
				n.Dropped, onNode(n.PortaldNode), appendSize(nil, n.MostBytes))
		}
	}
	switch {
	case printed:
	case services == 0:
		out.WriteString("No payload is kept: no Service has the annotation portald.io/keep-payload: badly-ended.\n")
	case t.filter.Empty() && len(t.ids) == 0:
		out.WriteString("No payload: none of the connections of Services that keep it has ended badly.\n")
	default:
		out.WriteString("No payload is kept of such a connection.\n")
	}
	return out.String()
}

func appendPayloadJSON(b []byte, p *adminsocket.Payload) []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is made of texts, bytes and finite numbers
	}
	return append(append(b, printable.JSON(text)...), '\n')
}

// appendPayload appends both directions, as bytes in hexadecimal and as text.
func appendPayload(b []byte, p *adminsocket.Payload) []byte {
	b = appendStream(b, "client→endpoint", &p.ClientToEndpoint)
	return append(appendStream(b, "endpoint→client", &p.EndpointToClient), '\n')
}

func appendStream(b []byte, name string, s *adminsocket.PayloadStream) []byte {
	b = fmt.Appendf(b, "  %s: %d bytes\n", name, s.Bytes)
	if s.Lacks != "" {
		b = append(appendText(append(b, "    not complete: "...), s.Lacks), '\n')
	}
	var end int64
	for _, part := range s.Parts {
		if left := part.Offset - end; left > 0 {
			b = fmt.Appendf(b, "    … %d bytes …\n", left)
		}
		b = appendDump(b, &part)
		end = part.Offset + int64(len(part.Data))
	}
	if left := s.Bytes - end; left > 0 {
		b = fmt.Appendf(b, "    … %d bytes …\n", left)
	}
	return b
}

// appendDump appends bytes as hex.Dump does, with the place in the stream in front of each line.
func appendDump(b []byte, part *adminsocket.PayloadPart) []byte {
	const perLine, digits = 16, 8
	at := part.Offset
	for line := range strings.Lines(hex.Dump(part.Data)) {
		b = fmt.Appendf(b, "    %0*x%s", digits, at, line[digits:])
		at += perLine
	}
	return b
}

package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect/cluster"
	"github.com/portald/portald/platform/doctor"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
)

// examined is what doctor found on a node.
type examined struct {
	Node   string         `json:"node"`
	Report *doctor.Report `json:"report"`
}

// doctorNodes prints what doctor finds in the pod of each node: once for nodes with the same findings.
func doctorNodes(cmd *cobra.Command, dial *Dial, output string, style doctor.Style) error {
	nodes, err := dial.Nodes(cmd.Context())
	if err != nil {
		return fmt.Errorf("%w: %w", adminsocket.ErrNotReachable, err)
	}
	var all []examined
	for at, r := range cluster.Each(cmd.Context(), nodes, doctorTime, examine, dial.cluster.failed) {
		if r != nil {
			all = append(all, examined{nodes[at].Name, r})
		}
	}
	if output == outputJSON {
		text, err := json.MarshalIndent(all, "", "  ")
		if err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", printable.JSON(text))
		}
		return err
	}
	if err := printExamined(cmd, all, style); err != nil {
		return err
	}
	bad := slices.DeleteFunc(all, func(e examined) bool { return e.Report.Count(doctor.Error) == 0 })
	if len(bad) > 0 {
		return fmt.Errorf("doctor: errors found on %s", counted(len(bad), "node"))
	}
	return nil
}

// doctorTime bounds doctor on a node, which takes three seconds at most, with the start of its process.
const doctorTime = 15 * time.Second

func examine(ctx context.Context, n *cluster.Node) (*doctor.Report, error) {
	var out bytes.Buffer
	failed := n.Run(ctx, []string{"doctor", "--output=json"}, &out)
	report := &doctor.Report{}
	if err := json.Unmarshal(out.Bytes(), report); err != nil {
		if failed != nil {
			return nil, failed
		}
		return nil, fmt.Errorf("read what doctor prints: %w", err)
	}
	return report, nil // it fails when it finds errors
}

// printExamined prints each different text once, with the nodes that it is of.
func printExamined(cmd *cobra.Command, all []examined, style doctor.Style) error {
	var texts []string
	nodes := map[string][]string{}
	for _, e := range all {
		e.Report.Daemon = "" // it names the process
		var text strings.Builder
		if err := e.Report.Text(&text, style); err != nil {
			return err
		}
		if nodes[text.String()] == nil {
			texts = append(texts, text.String())
		}
		nodes[text.String()] = append(nodes[text.String()], e.Node)
	}
	for i, text := range texts {
		if i > 0 {
			text = "\n" + text
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s", printable.Text(strings.Join(nodes[text], ", ")), text)
		if err != nil {
			return err
		}
	}
	return nil
}

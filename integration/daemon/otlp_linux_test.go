package daemon

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/portald/portald/integration/bed"
)

// collects is an OTLP receiver on the node.
type collects struct {
	mu  sync.Mutex
	got []*logs.LogRecord
}

func (c *collects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var export collector.ExportLogsServiceRequest
	if err != nil || proto.Unmarshal(text, &export) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range export.ResourceLogs {
		for _, scope := range of.ScopeLogs {
			c.got = append(c.got, scope.LogRecords...)
		}
	}
}

// lines are what it got, as one of OpenTelemetry's backends would list it.
func (c *collects) lines() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.got {
		out = append(out, fmt.Sprintf("%s %s %s", r.SeverityText, r.EventName, r.Body.GetStringValue()))
	}
	return out
}

// A collector gets what changed on the node beside the records of connections, until the end of the daemon; with the
// setting it gets records alone.
func TestExportOfChanges(t *testing.T) {
	for changes, want := range map[string]bool{"true": true, "false": false} {
		t.Run(changes, func(t *testing.T) {
			b := bed.New(t)
			c := &collects{}
			l, err := b.Node.Listen("tcp", "127.0.0.1:4318")
			b.Must(err)
			server := &http.Server{Handler: c}
			go func() { _ = server.Serve(l) }()
			t.Cleanup(func() { _ = server.Close() })
			b.ServePods(0)
			d := b.Start(b.Cart(0, 1), "--connection-log-otlp-endpoint=http://127.0.0.1:4318",
				"--connection-log-otlp-changes="+changes)
			d.Apply(b.Cart(0))
			_, err = bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
			b.Must(err)
			has := func(line, event, text string) bool {
				return strings.HasPrefix(line, event+" ") && strings.Contains(line, text)
			}
			b.Eventually("the record", func() bool {
				for _, line := range c.lines() {
					if has(line, "INFO portald.connection.end", "shop/cart:http tcp "+b.Client.IPv4.String()) {
						return true
					}
				}
				return false
			})
			d.Stop()
			all := c.lines()
			for event, text := range map[string]string{
				"INFO portald.change.daemon_started":   ") started",
				"INFO portald.change.endpoint_removed": " shop/cart:http: endpoint 10.244.0.3:8080 (pod shop/pod1) removed",
				"INFO portald.change.daemon_ending":    ") is told to end",
			} {
				found := false
				for _, line := range all {
					found = found || has(line, event, text)
				}
				if found != want {
					t.Errorf("%s %s: is there %v, in\n%s", event, text, found, strings.Join(all, "\n"))
				}
			}
		})
	}
}

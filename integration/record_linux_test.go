package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

// record is one line of the connection log.
type record struct {
	Time              time.Time `json:"time"`
	ID                uint64    `json:"id"`
	Service           string    `json:"service"`
	Protocol          string    `json:"protocol"`
	Client            string    `json:"client"`
	OriginalDst       string    `json:"original_dst"`
	Portal            string    `json:"portal"`
	Proxy             string    `json:"proxy"`
	Endpoint          string    `json:"endpoint"`
	Pod               string    `json:"pod"`
	Node              string    `json:"node"`
	Attempts          []attempt `json:"attempts"`
	Affinity          string    `json:"affinity"`
	BytesFromClient   int64     `json:"bytes_from_client"`
	BytesFromEndpoint int64     `json:"bytes_from_endpoint"`
	ConnectMS         *float64  `json:"connect_ms"`
	FirstByteMS       *float64  `json:"first_byte_ms"`
	DurationMS        float64   `json:"duration_ms"`
	ClosedBy          string    `json:"closed_by"`
	How               string    `json:"how"`
	Outcome           string    `json:"outcome"`
}

type attempt struct {
	Endpoint string  `json:"endpoint"`
	MS       float64 `json:"ms"`
	Error    string  `json:"error"`
}

func (r record) String() string {
	return fmt.Sprintf("%s %s %s → %s (%s) → %s %s, closed by %s, %s: %s, tried %v", r.Service, r.Protocol, r.Client,
		r.OriginalDst, r.Portal, r.Endpoint, r.Pod, r.ClosedBy, r.How, r.Outcome, r.Attempts)
}

// records are those that are in the file by now.
func (d *daemon) records() []record {
	d.Helper()
	return readRecords(d.T, d.file)
}

func readRecords(t testing.TB, path string) (out []record) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var r record
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("record %q: %v", line, err)
		}
		out = append(out, r)
	}
	return out
}

// recordWhere waits for a record.
func (d *daemon) recordWhere(what string, is func(record) bool) (found record) {
	d.Helper()
	d.eventually("the record "+what, func() bool {
		for _, r := range d.records() {
			if is(r) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// recordOf waits for the record of the client at that address.
func (d *daemon) recordOf(a answer) record {
	d.Helper()
	return d.recordWhere("of "+a.client.String(), func(r record) bool { return r.Client == a.client.String() })
}

package bed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

// Record is one line of the connection log.
type Record struct {
	Time              time.Time `json:"time"`
	ID                uint64    `json:"id"`
	Service           string    `json:"service"`
	Protocol          string    `json:"protocol"`
	Client            string    `json:"client"`
	ClientPod         string    `json:"client_pod"`
	OriginalDst       string    `json:"original_dst"`
	Portal            string    `json:"portal"`
	Proxy             string    `json:"proxy"`
	Endpoint          string    `json:"endpoint"`
	Pod               string    `json:"pod"`
	Node              string    `json:"node"`
	Attempts          []attempt `json:"attempts"`
	Ejected           int       `json:"ejected"`
	Affinity          string    `json:"affinity"`
	BytesFromClient   int64     `json:"bytes_from_client"`
	BytesFromEndpoint int64     `json:"bytes_from_endpoint"`
	ConnectMS         *float64  `json:"connect_ms"`
	FirstByteMS       *float64  `json:"first_byte_ms"`
	DurationMS        float64   `json:"duration_ms"`
	ClosedBy          string    `json:"closed_by"`
	CloseType         string    `json:"close_type"`
	Outcome           string    `json:"outcome"`
	CarriedBy         string    `json:"carried_by"`
	Event             string    `json:"event"`
}

type attempt struct {
	Endpoint string  `json:"endpoint"`
	MS       float64 `json:"ms"`
	Error    string  `json:"error"`
	Ejection string  `json:"ejection"`
}

func (r Record) String() string {
	return fmt.Sprintf("%s %s %s → %s (%s) → %s %s, closed by %s, %s: %s, tried %v", r.Service, r.Protocol, r.Client,
		r.OriginalDst, r.Portal, r.Endpoint, r.Pod, r.ClosedBy, r.CloseType, r.Outcome, r.Attempts)
}

// Records returns the records that are in the connection log now.
func (d *Daemon) Records() []Record {
	d.Helper()
	return ReadRecords(d.T, d.File)
}

// ReadRecords returns the complete records of a connection log.
func ReadRecords(t testing.TB, path string) (out []Record) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var r Record
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // incomplete: portald is writing it
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("record %q: %v", line, err)
		}
		out = append(out, r)
	}
	return out
}

// RecordWhere waits for a record for which is returns true; what describes it in the failure message.
func (d *Daemon) RecordWhere(what string, is func(Record) bool) (found Record) {
	d.Helper()
	d.Eventually("the record "+what, func() bool {
		for _, r := range d.Records() {
			if is(r) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// RecordOf waits for the record of the connection that got this answer.
func (d *Daemon) RecordOf(a Answer) Record {
	d.Helper()
	return d.RecordWhere("of "+a.Client.String(), func(r Record) bool { return r.Client == a.Client.String() })
}

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/portald/portald/proxy/connlog"
)

// recorded counts portald's records of one Service's connections.
type recorded struct {
	unreached int // the client was accepted, and no endpoint
	retried   int // more than one endpoint was tried
}

// recordsFile is where a portald of a bed writes records.
func (b *bed) recordsFile() string { return filepath.Join(b.dir, "records") }

// readRecords reads those of connections since a time, by the Service's name as in a record. A proxy that writes none
// has none.
func (b *bed) readRecords(since time.Time) (map[string]recorded, error) {
	file, err := os.Open(b.recordsFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := map[string]recorded{}
	for lines := json.NewDecoder(file); ; {
		var l connlog.Line
		if err := lines.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read records: %w", err)
		}
		if l.Time.Before(since) {
			continue
		}
		one := all[l.Service]
		if l.ConnectMS == nil {
			one.unreached++
		}
		if len(l.Attempts) > 1 {
			one.retried++
		}
		all[l.Service] = one
	}
}

// recordName is a client's Service as records name it.
func (c client) recordName() string { return namespace + "/" + c.name + ":" + portName }

//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// records reads portald's connection log as it grows.
type records struct {
	file *os.File
	in   *bufio.Reader
	part string // beginning of an incomplete line
}

func openRecords(path string) (*records, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return &records{file: f, in: bufio.NewReader(f)}, nil
}

// take waits for the next n records and returns them. It then waits a moment longer: further records are an error.
func (r *records) take(ctx context.Context, n int) ([]string, error) {
	const moment = 150 * time.Millisecond // portald writes records in batches, every 50 ms
	var lines []string
	for end := time.Now().Add(timeout); len(lines) < n && time.Now().Before(end); {
		more, err := r.read(ctx, 10*time.Millisecond)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	more, err := r.read(ctx, moment)
	if err != nil {
		return nil, err
	}
	if lines = append(lines, more...); len(lines) != n {
		return nil, fmt.Errorf("portald wrote %d records for %d connections:\n%s", len(lines), n, strings.Join(lines, "\n"))
	}
	return lines, nil
}

// read waits for the given time and returns all complete records.
func (r *records) read(ctx context.Context, wait time.Duration) ([]string, error) {
	if err := pause(ctx, wait); err != nil {
		return nil, err
	}
	var lines []string
	for {
		line, err := r.in.ReadString('\n')
		r.part += line
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the connection log: %w", err)
		}
		lines = append(lines, strings.TrimSuffix(r.part, "\n"))
		r.part = ""
	}
}

func (r *records) close() error { return r.file.Close() }

// attempts counts the failed attempts in a record.
func attempts(record string) int { return strings.Count(record, "[tried ") }

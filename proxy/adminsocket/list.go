package adminsocket

import (
	"bufio"
	"context"
	"errors"
	"iter"
	"net/http"
	"time"
)

// maxLists is how many lists are under way at a time, at most half of them for clients by TCP, who may be anybody on
// the host: a sorted one of 100,000 connections takes 50 MB and some CPU time. listWait is how long one more waits.
const (
	maxLists = 8
	listWait = 10 * time.Second
)

var errManyLists = statusError{errors.New("too many lists are read at a time: end some of these commands"),
	http.StatusServiceUnavailable}

// inTurn has a list wait until fewer are under way.
func (h *Handler) inTurn(
	serve func(http.ResponseWriter, *http.Request) error,
) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), listWait)
		defer cancel()
		places := []chan struct{}{h.lists}
		if isByTCP(r) {
			places = []chan struct{}{h.tcpLists, h.lists}
		}
		for _, place := range places {
			select {
			case place <- struct{}{}:
				defer func() { <-place }()
			case <-ctx.Done():
				return errManyLists
			}
		}
		return serve(w, r)
	}
}

// chunk is how much of a list is written at a time, in bytes.
const chunk = 64 << 10

// writeList streams a JSON array, one element a line.
func writeList[T any](w http.ResponseWriter, all iter.Seq[*T], appendOne func([]byte, *T) ([]byte, error)) (err error) {
	out := bufio.NewWriterSize(w, chunk)
	line, before := make([]byte, 0, 1024), "[\n"
	for one := range all {
		if line, err = appendOne(append(line[:0], before...), one); err != nil {
			return err
		}
		if _, err = out.Write(line); err != nil {
			return err
		}
		before = ",\n"
	}
	end := "\n]\n"
	if before == "[\n" {
		end = "[]\n"
	}
	if _, err := out.WriteString(end); err != nil {
		return err
	}
	return out.Flush()
}

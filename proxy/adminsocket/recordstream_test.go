package adminsocket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

// ended is a record with a long name, so that few of them fill the buffers of a socket.
func ended(id uint64) *record.Record {
	return &record.Record{
		ID: id, Start: time.Now(), Client: netip.MustParseAddrPort("10.1.0.9:50000"), Outcome: record.OutcomeOK,
		Service: service.PortName{Namespace: "shop", Name: strings.Repeat("cart", 50), Protocol: inet.TCP},
	}
}

// A client that does not read holds up nobody, misses records, and is told how many.
func TestSlowFollower(t *testing.T) {
	const kept, all = 64, 20_000
	stream := connlog.NewStream(kept)
	d := (&fake{}).daemon()
	d.Records = stream
	c := serve(t, NewHandler(d))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reads, first, got, missed := make(chan struct{}), make(chan struct{}, 1), uint64(0), uint64(0)
	enough := errors.New("all were told of")
	told := func() error {
		if got+missed >= all {
			return enough
		}
		return nil
	}
	result := make(chan error, 1)
	go func() {
		result <- c.Records(ctx, RecordQuery{Last: 1, Follow: true}, func(*connlog.Line) error {
			if got++; got == 1 {
				first <- struct{}{}
				<-reads
			}
			return told()
		}, func(g Gap) error {
			missed += g.Missed
			return told()
		})
	}()
	stream.Observe(ended(1))
	<-first
	for id := uint64(2); id <= all; id++ {
		stream.Observe(ended(id))
	}
	close(reads)
	if err := <-result; !errors.Is(err, enough) || missed == 0 || got+missed != all {
		t.Errorf("%v: %d records and %d missed", err, got, missed)
	}
}

// Clients by way of the address of the metrics leave half of the places to clients of the socket.
func TestFollowersByTheViewAreFewer(t *testing.T) {
	d := (&fake{}).daemon()
	d.Records = connlog.NewStream(8)
	h := NewHandler(d)
	for range maxFollowers / 2 {
		stuck := &stream{connection: http.NewResponseController(httptest.NewRecorder())}
		stuck.waits.Store(1) // for ages
		if err := h.followers.enter(stuck); err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequest("GET", "/v1/records?follow=1", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:5000", "localhost"
	w := httptest.NewRecorder()
	if h.View().ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a client by TCP with half of the places taken: %d %s", w.Code, w.Body)
	}
	c := serve(t, h)
	again, err := c.open(t.Context(), "GET", "/v1/records?follow=1", nil)
	if err != nil {
		t.Fatalf("a client of the socket: %v", err)
	}
	_ = again.Close()
}

// There is a limit to those who follow, and room again when one leaves.
func TestFollowersAreBounded(t *testing.T) {
	d := (&fake{}).daemon()
	d.Records = connlog.NewStream(8)
	c := serve(t, NewHandler(d))
	follow := url.Values{"follow": {"1"}}.Encode()
	var leave []func()
	for range maxFollowers {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, err := c.open(ctx, "GET", "/v1/records?"+follow, nil); err != nil {
			t.Fatal(err)
		}
		leave = append(leave, cancel)
	}
	_, err := c.open(t.Context(), "GET", "/v1/records?"+follow, nil)
	if err == nil || !strings.Contains(err.Error(), "16 clients follow") {
		t.Errorf("one more: %v", err)
	}
	if err := c.Records(t.Context(), RecordQuery{Last: 1}, nil, nil); err != nil {
		t.Errorf("one that does not follow: %v", err)
	}
	leave[0]()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		again, err := c.open(t.Context(), "GET", "/v1/records?"+follow, nil)
		if err == nil {
			_ = again.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after one left: %v", err)
		}
	}
}

// One that has not read for a while makes room for one more, the longest first, and for none while it reads.
func TestStuckFollowersMakeRoom(t *testing.T) {
	d := (&fake{}).daemon()
	d.Records = connlog.NewStream(1024)
	h := NewHandler(d)
	c := serve(t, h)
	follow := func() (io.ReadCloser, error) {
		return c.open(t.Context(), "GET", "/v1/records?follow=1", nil)
	}
	var all []io.ReadCloser
	for range maxFollowers {
		one, err := follow()
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		all = append(all, one)
	}
	reads := all[0]
	go func() { _, _ = io.Copy(io.Discard, reads) }()
	waiting := func() (out []*stream) {
		h.followers.mu.Lock()
		defer h.followers.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(h.followers.all[1:]), func(s *stream) bool { return s.waits.Load() == 0 })
	}
	for id := uint64(0); len(waiting()) < maxFollowers-1; id++ {
		d.Records.Observe(ended(id))
		runtime.Gosched()
	}
	if _, err := follow(); err == nil {
		t.Error("one more, a moment after they stopped to read")
	}
	stuck := waiting()
	for i, s := range stuck[:len(stuck)-1] {
		s.waits.Add(-int64(stuckAfter) - int64(i))
	}
	for range len(stuck) - 1 {
		one, err := follow()
		if err != nil {
			t.Fatalf("one more: %v", err)
		}
		defer one.Close()
	}
	if !stuck[len(stuck)-2].isCut.Load() || stuck[len(stuck)-1].isCut.Load() {
		t.Error("another was cut")
	}
}

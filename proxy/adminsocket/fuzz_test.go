package adminsocket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/capture"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/connlog/logfiles"
	"github.com/portald/portald/proxy/explain"
)

// answering is a daemon that has everything.
func answering() Daemon {
	d := (&fake{open: []Connection{connection(1), connection(2)}, level: "info"}).daemon()
	d.Services = func(_ context.Context, wanted func(string) bool) iter.Seq[*Service] {
		return func(yield func(*Service) bool) {
			_ = wanted("shop/cart:http") && yield(&Service{Name: "shop/cart:http"})
		}
	}
	d.Endpoints = func(_ context.Context, wanted func(string) bool) iter.Seq[*Endpoint] {
		return func(yield func(*Endpoint) bool) {
			_ = wanted("shop/cart:http") && yield(&Endpoint{Service: "shop/cart:http"})
		}
	}
	d.Records = connlog.NewStream(8)
	d.Records.Observe(ended(1))
	d.Files = logfiles.Log{Path: "/nowhere/at/all", Format: "json"}
	d.Explain = func(_ context.Context, what, from string, _ bool) (*explain.Report, error) {
		_, err := explain.Parse(what, from)
		return &explain.Report{What: what}, err
	}
	d.Flip = func(_ context.Context, what, to string) (*explain.Report, error) {
		_, err := explain.Parse(what, to)
		return &explain.Report{What: what}, err
	}
	d.Drain = func(*Endpoint, bool) error { return nil }
	d.Undrain = func(*Endpoint) error { return nil }
	d.Capture = func(context.Context, *capture.Request, func() (*capture.Writer, error)) error {
		return capture.ErrNothing
	}
	d.Configuration = func() any { return inet.IPv4 }
	d.Metrics = http.NotFoundHandler()
	return d
}

// FuzzRequest: whatever is asked for is answered, by the value that was asked for or by an error that blames the
// request, as printable JSON.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][2]string{
		{"/v1/", ""}, {"/v1/info", ""},
		{"/v1/connections?id=1&ip=10.0.0.0/8&port=80&state=open&older=1m&sort=rtt&limit=2&tcp=1", ""},
		{"/v1/records?last=9&outcome=ok&not-service=a/*&since=5m&attempts=2&slower=1s", ""}, {"/v1/records?follow=1", ""},
		{"/v1/records?last=9&history=1&until=2026-01-02T03:04:05Z", ""}, {"/v1/changes?last=3&kind=ejected", ""},
		{"/v1/services?namespace=shop&service=cart", ""}, {"/v1/endpoints?pod=shop/cart-a&state=used", ""},
		{"/v1/explain?what=pod/shop/cart&from=10.0.0.1", ""}, {"/v1/flip?what=shop/cart&to=kernel", ""},
		{"/v1/configuration", ""}, {"/v1/payload?last=1", "{}"}, {"/v1/probe", `{"what":"[fd00::1]:80/udp","from":"fe80::1%x"}`},
		{"/v1/capture", `{"targets":["pod/a/b","10.0.0.0/8"],"duration":60,"packets":1,"bytes":1,"filter":"tcp port 80"}`},
		{"/v1/cut", `{"ids":[1,2]}`}, {"/v1/drain", `{"pod":"shop/cart-a","force":true}`},
		{"/v1/undrain", `{"endpoint":"1.2.3.4:5"}`},
		{"/v1/loglevel", `{"level":"debug"}`},
	} {
		for _, method := range []string{"GET", "POST"} {
			f.Add(method, seed[0], seed[1])
		}
	}
	h := NewHandler(answering())
	view := h.View()
	over, end := context.WithCancel(f.Context()) // who follows has left
	end()
	f.Fuzz(func(t *testing.T, method, target, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !slices.Contains([]string{"GET", "HEAD", "POST", "PUT"}, method) {
			return
		}
		for _, handler := range []http.Handler{h, view} {
			r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body)).WithContext(over)
			r.URL, r.RequestURI, r.RemoteAddr = u, target, "127.0.0.1:5000"
			w := httptest.NewRecorder()
			if aborted := abort(func() { handler.ServeHTTP(patient{w}, r) }); aborted {
				continue
			}
			if w.Code == http.StatusInternalServerError {
				t.Errorf("%s %s %q: %d %s", method, target, body, w.Code, w.Body)
			}
			if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
				continue
			}
			for values := json.NewDecoder(bytes.NewReader(w.Body.Bytes())); values.More(); {
				var value json.RawMessage
				if err := values.Decode(&value); err != nil {
					t.Fatalf("%s %s %q answers %q: %v", method, target, body, w.Body, err)
				}
			}
			if i := bytes.IndexFunc(w.Body.Bytes(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%s %s %q answers %q", method, target, body, w.Body)
			}
		}
	})
}

// patient is a connection whose deadlines never come.
type patient struct{ *httptest.ResponseRecorder }

func (patient) SetReadDeadline(time.Time) error  { return nil }
func (patient) SetWriteDeadline(time.Time) error { return nil }

// abort tells whether serve broke off an answer.
func abort(serve func()) (aborted bool) {
	defer func() {
		if p := recover(); p != nil {
			if err, is := p.(error); !is || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			aborted = true
		}
	}()
	serve()
	return false
}

package adminsocket

import (
	"context"
	"errors"
	"iter"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/explain"
)

// No answer has what is not printable, whatever names, rules of other programs and errors have: it may be printed by
// another client than portald's commands.
func TestAnswersArePrintable(t *testing.T) {
	const hostile = "a\x1b[2J\r\nb\u202ec\u009b\u2066\x7f\U000e0041"
	c := connection(1)
	c.Pod, c.Service, c.ClientPod = hostile, hostile, hostile
	d := (&fake{open: []Connection{c}}).daemon()
	d.Info = func() Info { return Info{Version: hostile, Node: hostile} }
	d.Services = func(context.Context, func(string) bool) iter.Seq[*Service] {
		return slices.Values([]*Service{{Name: hostile, Problem: hostile}})
	}
	d.Endpoints = func(context.Context, func(string) bool) iter.Seq[*Endpoint] {
		return slices.Values([]*Endpoint{{Service: hostile, Pod: hostile, LastError: hostile}})
	}
	d.Records = connlog.NewStream(8)
	r := ended(1)
	r.Endpoint.Pod, r.Service.Name, r.Error = hostile, hostile, hostile
	d.Records.Observe(r)
	d.Explain = func(_ context.Context, what, _ string, _ bool) (*explain.Report, error) {
		if what == "wrong" {
			return nil, errors.New(hostile)
		}
		return &explain.Report{What: what, Verdict: explain.Line{Text: hostile, Details: []string{hostile}}}, nil
	}
	h := NewHandler(d)
	query := url.QueryEscape(hostile)
	for _, path := range []string{
		"/v1/", "/v1/info", "/v1/connections", "/v1/services", "/v1/endpoints", "/v1/records?last=9",
		"/v1/explain?what=" + query, "/v1/explain?what=wrong", "/v1/connections?x=" + query,
		"/v1/connections?" + query + "=1",
		"/v1/connections?ip=" + query, "/v1/records?last=" + query,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		body := w.Body.String()
		if i := strings.IndexFunc(body, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || body == "" {
			t.Errorf("%s: %d %q", path, w.Code, body)
		}
	}
}

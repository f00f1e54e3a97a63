package adminsocket

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The view at the metrics address is for this host alone, by an address or localhost, and changes nothing.
func TestViewIsForThisHost(t *testing.T) {
	view := NewHandler((&fake{}).daemon()).View()
	for _, test := range []struct {
		method, path, from, host string
		want                     int
	}{
		{"GET", "/v1/info", "127.0.0.1:5000", "127.0.0.1:10249", 200},
		{"GET", "/v1/connections", "[::1]:5000", "[::1]:10249", 200},
		{"GET", "/v1/", "[::ffff:127.0.0.9]:5000", "[::1]", 200},
		{"HEAD", "/v1/info", "127.0.0.1:5000", "localhost", 200},
		{"GET", "/v1/info", "127.0.0.1:5000", "10.0.0.1:10249", 200},
		{"GET", "/v1/info", "10.0.0.1:5000", "127.0.0.1:10249", 403},
		{"GET", "/v1/info", "[fe80::1%eth0]:5000", "127.0.0.1", 403},
		{"GET", "/v1/info", "@", "127.0.0.1", 403},
		{"GET", "/v1/info", "127.0.0.1:5000", "evil.example.org:10249", 403},
		{"GET", "/v1/info", "127.0.0.1:5000", "localhost.evil.example.org", 403},
		{"GET", "/v1/info", "127.0.0.1:5000", "", 403},
		{"POST", "/v1/cut", "127.0.0.1:5000", "127.0.0.1:10249", 404},
		{"POST", "/v1/loglevel", "127.0.0.1:5000", "127.0.0.1:10249", 404},
		{"POST", "/v1/probe", "127.0.0.1:5000", "127.0.0.1:10249", 404},
		{"POST", "/v1/payload", "127.0.0.1:5000", "127.0.0.1:10249", 404},
		{"GET", "/v1/payload", "127.0.0.1:5000", "127.0.0.1:10249", 404},
		{"POST", "/v1/info", "127.0.0.1:5000", "127.0.0.1:10249", 405},
		{"DELETE", "/v1/connections", "127.0.0.1:5000", "127.0.0.1:10249", 405},
	} {
		r := httptest.NewRequest(test.method, test.path, strings.NewReader(`{"ids":[1],"level":"debug"}`))
		r.RemoteAddr, r.Host = test.from, test.host
		w := httptest.NewRecorder()
		view.ServeHTTP(w, r)
		if w.Code != test.want || w.Header().Get(HeaderVersion) != Version {
			t.Errorf("%v: %d %s", test, w.Code, w.Body)
		}
		if origin := w.Header().Get("Access-Control-Allow-Origin"); origin != "" {
			t.Errorf("%v: allows %s", test, origin)
		}
	}
}

// A request that is too large, of the wrong kind or not understood is refused.
func TestRequestsAreChecked(t *testing.T) {
	h := NewHandler((&fake{}).daemon())
	for _, test := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/v1/cut", `{"ids":[1]}`, 200},
		{"POST", "/v1/cut", `{"ids":[` + strings.Repeat("1,", maxBody) + `1]}`, 400},
		{"POST", "/v1/cut", `{"ids":[1]} {"ids":[2]}`, 400},
		{"POST", "/v1/cut", `{"id":[1]}`, 400},
		{"POST", "/v1/cut", `{"ids":["1"]}`, 400},
		{"POST", "/v1/cut", ``, 400},
		{"POST", "/v1/cut?ids=1", `{"ids":[1]}`, 400},
		{"GET", "/v1/cut", ``, 405},
		{"GET", "/v1/payload?last=1", ``, 405},
		{"POST", "/v1/payload?last=1&colour=red", ``, 400},
		{"POST", "/v1/payload?last=1&id=x", ``, 400},
		{"POST", "/v1/payload?last=1&outcome=fine", ``, 400},
		{"POST", "/v1/payload?last=1&id=1&not-service=cart", ``, 200},
		{"PUT", "/v1/loglevel", `{"level":"debug"}`, 405},
		{"GET", "/v1/info?all=1", ``, 400},
		{"GET", "/v1/connections?colour=red", ``, 400},
		{"GET", "/v2/info", ``, 404},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
		if w.Code != test.want || w.Header().Get(HeaderVersion) != Version {
			t.Errorf("%s %s %.40s: %d %s", test.method, test.path, test.body, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/loglevel", strings.NewReader(`{"level":"loud"}`)))
	if want := "{\"error\":\"level \\\"loud\\\": must be lower\"}\n"; w.Body.String() != want {
		t.Errorf("%s", w.Body)
	}
}

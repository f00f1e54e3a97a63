package webui

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func request(method, path string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:8899"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// Only this host's browsers may read, only for the page itself, and only with the token. What the page is made of is
// for everybody on the host.
func TestGuard(t *testing.T) {
	handler := Guard("secret", New(nil, time.Second))
	auth := []string{"Authorization", "Bearer secret"}
	for _, test := range []struct {
		name string
		r    *http.Request
		want int
	}{
		{"the page", request("GET", "/"), 200},
		{"its script", request("GET", "/main.js"), 200},
		{"what is not there", request("GET", "/nothing"), 404},
		{"an answer", request("GET", "/api/overview", auth...), 200},
		{"an answer to the page", request("GET", "/api/overview", append(auth, "Sec-Fetch-Site", "same-origin")...), 200},
		{"HEAD", request("HEAD", "/api/overview", auth...), 200},
		{"no token", request("GET", "/api/overview"), 401},
		{"no token for what is not there", request("GET", "/api/nothing"), 401},
		{"a wrong token", request("GET", "/api/overview", "Authorization", "Bearer secre"), 401},
		{"an empty token", request("GET", "/api/overview", "Authorization", "Bearer "), 401},
		{"another scheme", request("GET", "/api/overview", "Authorization", "Basic secret"), 401},
		{"a token in the query", request("GET", "/api/overview?token=secret"), 401},
		{"another site", request("GET", "/api/overview", append(auth, "Sec-Fetch-Site", "cross-site")...), 403},
		{"another port", request("GET", "/api/overview", append(auth, "Sec-Fetch-Site", "same-site")...), 403},
		{"POST", request("POST", "/api/overview", auth...), 405},
		{"OPTIONS", request("OPTIONS", "/api/overview", auth...), 405},
		{"another path upwards", request("GET", "/../page.go"), 307},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, test.r)
		if w.Code != test.want {
			t.Errorf("%s: %d, want %d: %s", test.name, w.Code, test.want, w.Body)
		}
		csp := w.Header().Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'",
			"frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy lacks %s", test.name, part)
			}
		}
		for _, header := range []string{"Access-Control-Allow-Origin", "Set-Cookie"} {
			if got := w.Header().Get(header); got != "" {
				t.Errorf("%s: %s: %s", test.name, header, got)
			}
		}
		h := w.Header()
		stored := w.Code < 300 && h.Get("Cache-Control") != "no-store"
		if h.Get("X-Content-Type-Options") != "nosniff" || stored || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %v", test.name, w.Header())
		}
	}
}

// A name that resolves to 127.0.0.1 is none of this host: the page behind it is somebody else's.
func TestRebinding(t *testing.T) {
	handler := Guard("secret", New(nil, time.Second))
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:1": 200, "127.1.2.3:80": 200, "[::1]:80": 200, "[::1]": 200, "localhost:80": 200,
		"[::ffff:127.0.0.1]:80": 200,
		"evil.example.org:8899": 403, "localhost.evil.example.org": 403, "10.0.0.1:80": 403, "": 403, "0.0.0.0:80": 403,
		"127.0.0.1.evil.example.org:80": 403, "[::]:80": 403,
	} {
		for _, path := range []string{"/", "/api/overview"} {
			r := request("GET", path, "Authorization", "Bearer secret")
			r.Host = host
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%q %s: %d, want %d", host, path, w.Code, want)
			}
		}
	}
}

// The page is its own files alone: nothing of other hosts, no script or style within HTML, no text that is taken for
// HTML or for a program.
func TestFiles(t *testing.T) {
	all, err := fs.Glob(files, "page/*")
	check(t, err)
	for _, path := range all {
		text, err := fs.ReadFile(files, path)
		check(t, err)
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(",
			"https://", "//cdn", "<style", " style=", "onclick=", "@import", "url("} {
			if strings.Contains(string(text), bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		if strings.Contains(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", ""), "http://") {
			t.Errorf("%s has an address of another host", path)
		}
	}
	if len(all) < 10 {
		t.Errorf("%d files", len(all))
	}
}

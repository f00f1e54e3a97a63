package webui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy lets the page load its own files alone, and send requests to its own server alone.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Guard lets through what may read: requests of this host's browsers, which the page itself has sent. What the page is
// made of has nothing of a cluster in it, and may be read without the token.
//
// The token is in the part of the page's address that browsers do not send (#token=), and then a header of each
// request, in place of a cookie: a browser sends cookies to each port of an address, and on another port of this host
// may be the server of another user.
func Guard(token string, page *Page) http.Handler {
	return guarded(page, func(w http.ResponseWriter, r *http.Request) (ok bool) {
		if isFile(r) || hasToken(r, token) {
			return true
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "open the address that the command has printed: it has the token")
		return false
	})
}

// GuardLocal lets through what the page has sent for any user of this host: it is for a daemon that shows the same to
// all of them.
func GuardLocal(page *Page) http.Handler {
	return guarded(page, func(w http.ResponseWriter, r *http.Request) (ok bool) {
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && from.Addr().Unmap().IsLoopback() {
			return true
		}
		refuse(w, http.StatusForbidden, "the page is for clients on the node itself alone: open it there, or by "+
			"kubectl port-forward to portald's pod")
		return false
	})
}

// guarded serves the page to requests of this host's browsers, which the page itself has sent, if who asks may. If not,
// that is answered.
func guarded(page *Page, may func(w http.ResponseWriter, r *http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "this page only shows: use GET")
		case !isLoopback(r.Host):
			refuse(w, http.StatusForbidden, "the name in the request's Host header must be a loopback address, or localhost")
		case !isFile(r) && fromElsewhere(r):
			refuse(w, http.StatusForbidden, "the request comes from another page")
		case may(w, r):
			page.ServeHTTP(w, r)
		}
	})
}

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-store")
}

func isFile(r *http.Request) bool { return !strings.HasPrefix(r.URL.Path, apiPath) }

// fromElsewhere tells whether a page of another origin has had the browser send the request.
func fromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin"
}

func hasToken(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// isLoopback tells whether the Host header names this host as only itself does. A page of another name could have that
// resolve to 127.0.0.1, and read what a browser on this host gets from there. The port may be another one: of an ssh
// tunnel.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	a, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && a.Unmap().IsLoopback()
}

func refuse(w http.ResponseWriter, status int, text string) {
	respond(w, status, failure{text})
}

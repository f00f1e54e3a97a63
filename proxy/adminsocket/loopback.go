package adminsocket

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
)

// loopbackOnly refuses clients of other hosts. It also refuses requests to a name other than localhost: a web page
// could have its own name resolve to 127.0.0.1, and read what a browser on this host gets from there.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		switch {
		case err != nil || !from.Addr().Unmap().IsLoopback():
			refuse(w, "connections are shown to clients on the node itself alone: ask there, or run "+
				"\"portald conns\" in portald's pod")
		case !isAddress(r.Host):
			refuse(w, "the name in the request's Host header must be an address, or localhost")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func refuse(w http.ResponseWriter, why string) {
	withErrors(func(http.ResponseWriter, *http.Request) error {
		return statusError{errors.New(why), http.StatusForbidden}
	}).ServeHTTP(w, nil)
}

// isAddress tells whether the Host header of a request is an address or localhost, with a port or without.
func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

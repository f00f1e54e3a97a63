// Package admin is what one can see of the daemon: the connection log, metrics, health. It is told what happened and
// answers those who ask; it does not know how traffic is carried, and nothing it does may delay it.
package admin

import "github.com/portald/portald/proxy/splice"

// Observers returns an Observer that tells each of those given, in order.
func Observers(observers ...splice.Observer) splice.Observer {
	if len(observers) == 1 {
		return observers[0]
	}
	return func(r *splice.Record) {
		for _, o := range observers {
			o(r)
		}
	}
}

package explain

import (
	"fmt"
	"time"

	"github.com/portald/portald/platform/reach"
)

// judgeProbe says what a probe found. Gone: the host does not answer, or no route leads there.
func judgeProbe(r *reach.Result, now time.Time) (status Status, text string, gone bool) {
	switch r.Connect {
	case reach.Accepted:
		return Good, "accepts", false
	case reach.Refused:
		return Doubt, "nothing listens (refused)", false
	case reach.Forbidden:
		if r.Path.NoRoute == "" {
			return Doubt, "this node does not let it out: a program filters what sockets connect to", false
		}
	}
	up := hostShows(r, now)
	silent, gone := hostGone(&r.Path)
	switch {
	case up != "" && r.Connect == "":
		return Fact, "its host is up (" + up + "); only a client can tell whether the port answers", false
	case up != "" && r.Connect == reach.Unreachable:
		return Doubt, "its host is up (" + up + "), and a filter or a router rejects packets to this port", false
	case up != "":
		return Doubt, fmt.Sprintf(portSilent, up), false
	case gone:
		return Doubt, silent, true
	case r.Connect == reach.NoRoute:
		return Doubt, "no route", true
	case r.Connect == reach.Unreachable || r.Closed == reach.Unreachable:
		return Doubt, "a router says that it leads to no such host: pod or node is gone, or the network", true
	}
	tried := "neither this port, nor another, nor ping"
	if r.Echo == "" {
		tried = "neither this port, nor another; a ping may not be sent"
	}
	return Doubt, "its host does not answer (" + tried + "): pod or node is gone, the network, or a filter drops all", true
}

// hostShows is how the host of an endpoint shows that it is up; empty: it does not.
func hostShows(r *reach.Result, now time.Time) string {
	switch {
	case r.Closed == reach.Refused:
		return "refuses another port"
	case r.Closed == reach.Accepted:
		return "accepts at another port"
	case r.Echo == reach.Answered:
		return "answers ping"
	case r.Path.Up(r.Began):
		return pathShows(&r.Path, now)
	}
	return ""
}

// host is the cell of a probe about the host.
func host(r *reach.Result) string {
	switch up := hostShows(r, time.Time{}); {
	case r.Connect == reach.Accepted || r.Connect == reach.Refused || up != "":
		return "up"
	case r.Path.NoRoute != "" || r.Connect == reach.NoRoute || r.Connect == reach.Forbidden:
		return ""
	case r.Path.Silent():
		return "neighbour " + string(r.Path.Neighbor)
	}
	return "no answer"
}

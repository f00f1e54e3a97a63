package connlog

import (
	"path"
	"strings"
)

// Patterns of names are the same for records and for all that is listed: * stands for any part of a name, and a pattern
// without a namespace is for all of them. An empty name is matched by none.

// IsWord tells whether a word, such as a namespace or a node, is meant by a pattern.
func IsWord(pattern, word string) bool {
	ok, err := path.Match(pattern, word)
	return word != "" && ok && err == nil
}

// IsName tells whether namespace/name is meant by [namespace/]name.
func IsName(pattern, name string) bool {
	if !strings.Contains(pattern, "/") {
		_, name, _ = strings.Cut(name, "/")
	}
	return IsWord(pattern, name)
}

// IsService tells whether a service port, namespace/name:port, is meant by [namespace/]name[:port]; without a port each
// is.
func IsService(pattern, label string) bool {
	if !strings.Contains(pattern, ":") {
		label = before(label, ":")
	}
	return IsName(pattern, label)
}

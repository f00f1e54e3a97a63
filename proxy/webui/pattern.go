package webui

import (
	"net/netip"
	"strings"
)

// special are the characters that mean something in the patterns of the admin API.
var special = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// exactly is the pattern of a name.
func exactly(name string) string { return special.Replace(name) }

// partOf is the pattern of a Service's name that has a part, which may begin with its namespace.
func partOf(text string) string {
	namespace, name, both := strings.Cut(text, "/")
	if !both {
		return "*" + exactly(text) + "*"
	}
	return exactly(namespace) + "/" + exactly(name) + "*"
}

// prefixOf is the address or CIDR that a text is.
func prefixOf(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	return p, err == nil
}

package winservice

import (
	"regexp"
	"strings"
	"unicode"
)

// reference matches the parts of a text that the Event Viewer replaces: %1 by a text of the event, %%1 by one of a
// system file. Zones of IPv6 addresses look like that.
var reference = regexp.MustCompile(`%(%|\d)`)

// tidy makes text fit for the event log: lines, without other control characters and references, of a bounded length.
func tidy(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, text)
	for reference.MatchString(text) {
		text = reference.ReplaceAllString(text, "% $1")
	}
	if len(text) > eventBytes {
		text = strings.ToValidUTF8(text[:eventBytes-len("…")], "") + "…"
	}
	return strings.ToValidUTF8(text, "?")
}

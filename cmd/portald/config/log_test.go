package config

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"
)

// No line of the log has what is not printable but its end, and the colors of a terminal.
func TestLogIsPrintable(t *testing.T) {
	const hostile = "a\x1b[2J\r\nb\u202ec\u009b\x9b\u2066\x7f"
	for name, c := range map[string]*Config{"text": {}, "terminal": {}, "json": {LogFormat: "json"}} {
		var out bytes.Buffer
		log := c.NewLogger(&out)
		log.SetLevel(5)
		if name == "terminal" {
			log.Formatter.(*textLines).ForceColors = true
		}
		log.WithField("name", hostile).WithError(errors.New(hostile)).Warn(hostile)
		log.Info("plain")
		text := strings.ReplaceAll(strings.ReplaceAll(out.String(), "\x1b[33m", ""), "\x1b[36m", "")
		text = strings.ReplaceAll(text, "\x1b[0m", "")
		if strings.Count(text, "\n") != 2 || strings.ContainsFunc(text, func(r rune) bool {
			return r != '\n' && !unicode.IsPrint(r)
		}) {
			t.Errorf("%s: %q", name, text)
		}
	}
}

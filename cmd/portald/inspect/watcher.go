package inspect

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/term"
)

// watcher prints lists one after the other: on a terminal each in the place of the one before, as far as it fits there,
// elsewhere with an empty line between.
type watcher struct {
	out     io.Writer
	screen  *os.File // nil: not a terminal
	printed bool
}

func newWatcher(out io.Writer) *watcher { return &watcher{out: out, screen: screen(out)} }

// The codes of the terminal: to the upper left corner, clear from here to the end of the line, of the screen.
const (
	toTop      = "\x1b[H"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

func (w *watcher) show(print func(io.Writer) error) error {
	var text bytes.Buffer
	if err := print(&text); err != nil {
		return err
	}
	if w.screen != nil {
		_, err := w.out.Write(w.fitted(text.Bytes()))
		return err
	}
	if w.printed {
		if _, err := io.WriteString(w.out, "\n"); err != nil {
			return err
		}
	}
	w.printed = true
	_, err := w.out.Write(text.Bytes())
	return err
}

// fitted is a text as the screen shows it.
func (w *watcher) fitted(text []byte) []byte {
	width, height, err := term.GetSize(int(w.screen.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	shown := []byte(toTop)
	for line := range bytes.Lines(text) {
		if height--; height == 0 {
			break
		}
		shown = append(appendFitted(shown, bytes.TrimRight(line, "\n"), width), clearLine+"\r\n"...)
	}
	return append(shown, clearBelow...)
}

// appendFitted writes the characters of a line that fit; codes of colour take no place.
func appendFitted(b, line []byte, width int) []byte {
	code := false
	for _, r := range string(line) {
		switch {
		case r == '\x1b':
			code = true
		case code:
			code = r != 'm'
		case width == 0:
			continue
		default:
			width--
			b = append(b, string(r)...)
			continue
		}
		b = append(b, string(r)...)
	}
	return b
}

package inspect

import (
	"io"
	"os"

	"golang.org/x/term"
)

// paint is the colour of a cell, as a number of SGR; zero is plain.
type paint uint8

// The colours: what is well, what needs attention, what is wrong, what is beside the point.
const (
	plain  paint = 0
	red    paint = 31
	green  paint = 32
	yellow paint = 33
	faint  paint = 2
)

var sgr = map[paint]string{red: "\x1b[31m", green: "\x1b[32m", yellow: "\x1b[33m", faint: "\x1b[2m"}

func (p paint) append(b, text []byte) []byte {
	if p == plain || len(text) == 0 {
		return append(b, text...)
	}
	return append(append(append(b, sgr[p]...), text...), "\x1b[0m"...)
}

// terminal returns the file of an input or output that is a terminal, nil of any other.
func terminal(stream any) *os.File {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}

// screen is terminal for an output, which understands codes of colour and movement from now on.
func screen(out io.Writer) *os.File {
	f := terminal(out)
	if f == nil || os.Getenv("TERM") == "dumb" || !understandCodes(f) {
		return nil
	}
	return f
}

// colored tells whether an output is printed in colours: a screen, unless it has been asked to do without.
func colored(out io.Writer) bool { return os.Getenv("NO_COLOR") == "" && screen(out) != nil }

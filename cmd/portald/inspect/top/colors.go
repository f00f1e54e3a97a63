package top

import (
	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/portald/portald/cmd/portald/inspect"
)

// colors tells whether there are any.
type colors bool

// colorsOf is false where the environment asks to do without.
func colorsOf(getenv func(string) string) colors { return getenv("NO_COLOR") == "" }

// meaning is the reason for a colour.
type meaning uint8

const (
	plain meaning = iota
	warn          // needs attention
	bad           // is wrong
	faint         // is beside the point
)

func (c colors) color(m meaning) tcell.Color {
	if !c {
		return tcell.ColorDefault
	}
	switch m {
	case warn:
		return tcell.ColorYellow
	case bad:
		return tcell.ColorRed
	case faint:
		return tcell.ColorGray
	}
	return tcell.ColorDefault
}

// tag is text for a TextView, in a colour.
func (c colors) tag(m meaning, text string) string {
	text = tview.Escape(inspect.Text(text))
	if color := c.color(m); color != tcell.ColorDefault {
		return "[" + color.Name() + "]" + text + "[-]"
	}
	return text
}

// theme has the colours of the terminal itself everywhere.
func (c colors) theme() tview.Theme {
	d := tcell.ColorDefault
	return tview.Theme{
		PrimitiveBackgroundColor: d, ContrastBackgroundColor: d, MoreContrastBackgroundColor: d, BorderColor: d,
		TitleColor: d, GraphicsColor: d, PrimaryTextColor: d, SecondaryTextColor: d, TertiaryTextColor: d,
		InverseTextColor: d, ContrastSecondaryTextColor: d,
	}
}

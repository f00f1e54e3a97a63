package inspect

import (
	"os"

	"golang.org/x/sys/windows"
)

// understandCodes has a console of Windows understand the codes of terminals, which it does not by default.
func understandCodes(f *os.File) bool {
	var mode uint32
	if windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(windows.Handle(f.Fd()), mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}

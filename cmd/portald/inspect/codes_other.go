//go:build !windows

package inspect

import "os"

// understandCodes tells whether a terminal understands the codes of terminals.
func understandCodes(*os.File) bool { return true }

package platform

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// DataDir returns the folder for the daemon's own files: its configuration, its log and its state. It does not go by
// %ProgramData%, which users may set.
func DataDir() string {
	all, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		all = os.Getenv("SystemDrive") + `\ProgramData`
	}
	return filepath.Join(all, "portald")
}

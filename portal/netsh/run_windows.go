package netsh

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/windows"
)

// executable is netsh in the system's own folder: a search path may lead to a netsh of others.
func executable() (string, error) {
	folder, err := windows.GetSystemDirectory()
	if err != nil {
		return "", fmt.Errorf("find the system folder: %w", err)
	}
	return filepath.Join(folder, "netsh.exe"), nil
}

func hideWindow(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW}
}

// oemCodePage is CP_OEMCP, in which programs of the console print to pipes.
const oemCodePage = 1

func decode(out []byte) string {
	if len(out) == 0 || utf8.Valid(out) {
		return string(out)
	}
	wide := make([]uint16, len(out))
	n, err := windows.MultiByteToWideChar(oemCodePage, 0, &out[0], int32(len(out)), &wide[0], int32(len(wide)))
	if err != nil {
		return string(out)
	}
	return windows.UTF16ToString(wide[:n])
}

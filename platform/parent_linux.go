package platform

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Parent names who started a process, as "bash (pid 12)". It is empty if the process has ended, or is not the one of
// that name: another namespace numbers processes otherwise.
func Parent(process string, pid int) string {
	is, parent, err := processStatus(pid)
	if err != nil || is != process {
		return ""
	}
	name, _, err := processStatus(parent)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s (pid %d)", name, parent)
}

func processStatus(pid int) (name string, parent int, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return "", 0, err
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		switch key {
		case "Name":
			name = value
		case "PPid":
			parent, err = strconv.Atoi(value)
		}
	}
	return name, parent, err
}

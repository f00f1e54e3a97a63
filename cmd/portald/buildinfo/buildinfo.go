// Package buildinfo says which version of the sources a program was built from.
package buildinfo

import (
	"fmt"
	"runtime/debug"
)

// Version is the module's version, and the revision that the program was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

// versionOf takes both from what the go command has found in git: the version is the tag of the commit, v0.1.0; between
// tags what follows the last one, v0.1.1-0.20261124141856-3e4575ae7f3f; with +dirty where files were changed.
func versionOf(info *debug.BuildInfo) string {
	out := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			out += " " + s.Value
		}
	}
	return fmt.Sprintf("%s (%s)", out, info.GoVersion)
}

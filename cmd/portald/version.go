package main

import (
	"fmt"
	"runtime/debug"
)

// version is the module's version, and the revision that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	out := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			out += " " + s.Value
		}
	}
	return fmt.Sprintf("%s (%s)", out, info.GoVersion)
}

//go:build !windows

package platform

// DataDir returns the folder of Windows for the daemon's own files, where it mostly is.
func DataDir() string { return `C:\ProgramData\portald` }

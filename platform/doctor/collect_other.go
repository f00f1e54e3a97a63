//go:build !linux && !windows

package doctor

// look has nothing to collect: portald serves Services on Linux and Windows.
func (f *Facts) collect(*batch) {}

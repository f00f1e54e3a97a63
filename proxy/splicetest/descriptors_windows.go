package splicetest

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// openDescriptors returns how many handles the process has open.
func openDescriptors(t testing.TB) int64 {
	t.Helper()
	var n uint32
	count := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetProcessHandleCount")
	if ok, _, err := count.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&n))); ok == 0 {
		t.Fatal(err)
	}
	return int64(n)
}

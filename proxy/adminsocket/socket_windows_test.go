package adminsocket

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// The list of the pipe names LocalSystem and the administrators and nobody else, and inherits nothing.
func TestPipeIsForAdministrators(t *testing.T) {
	access, err := windows.SecurityDescriptorFromString(onlyAdministrators)
	if err != nil {
		t.Fatal(err)
	}
	if control, _, err := access.Control(); err != nil || control&windows.SE_DACL_PROTECTED == 0 {
		t.Errorf("control %#x, %v: it inherits", control, err)
	}
	list, _, err := access.DACL()
	if err != nil || list.AceCount != 2 {
		t.Fatal(list, err)
	}
	for i, who := range []windows.WELL_KNOWN_SID_TYPE{windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid} {
		var entry *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, uint32(i), &entry); err != nil {
			t.Fatal(err)
		}
		sid := (*windows.SID)(unsafe.Pointer(&entry.SidStart))
		if !sid.IsWellKnown(who) || entry.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE {
			t.Errorf("entry %d is for %s: %+v", i, sid, entry)
		}
	}
}

package platform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Wine has the modes of files for access lists, and links are not known as links. So this shows the calls, not what
// they come to.
func TestFolderIsMadeAndTakenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program data", "portald")
	for range 2 {
		if err := MakeFolder(path); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(path, "addresses.json")
	if err := CheckFile(file); err != nil {
		t.Error("without a file:", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckFile(file); err != nil {
		t.Error("a file of our own:", err)
	}
}

func TestFileInPlaceOfTheFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakeFolder(file); err == nil || !strings.Contains(err.Error(), "not a folder: remove it") {
		t.Error(err)
	}
}

func TestOwners(t *testing.T) {
	sid := func(text string) *windows.SID {
		out, err := windows.StringToSid(text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const system, administrators, users, me, other = "S-1-5-18", "S-1-5-32-544", "S-1-5-32-545", "S-1-5-21-1-2-3-1001",
		"S-1-5-21-1-2-3-1002"
	for owner, fine := range map[string]bool{system: true, administrators: true, me: true, users: false, other: false} {
		if err := checkOwner("x", sid(owner), sid(me)); (err == nil) != fine {
			t.Errorf("%s: %v", owner, err)
		}
	}
}

// The list that a folder gets names LocalSystem and the administrators and nobody else, and inherits nothing.
func TestPrivate(t *testing.T) {
	access, err := windows.SecurityDescriptorFromString(private)
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
		const below = windows.OBJECT_INHERIT_ACE | windows.CONTAINER_INHERIT_ACE
		if !sid.IsWellKnown(who) || entry.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE ||
			entry.Header.AceFlags != below {
			t.Errorf("entry %d is for %s: %+v", i, sid, entry)
		}
	}
}

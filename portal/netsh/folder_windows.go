package netsh

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// private is full access for LocalSystem and administrators, here and below, and none for others.
const private = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"

// makeFolder makes a folder that only administrators can look into. One that is there already must be theirs.
func makeFolder(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	access, err := windows.SecurityDescriptorFromString(private)
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	attributes := windows.SecurityAttributes{SecurityDescriptor: access}
	attributes.Length = uint32(unsafe.Sizeof(attributes))
	if err = windows.CreateDirectory(name, &attributes); errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return checkOwner(path)
	}
	return err
}

// checkOwner refuses a folder that another user has made, who could change what is written there.
func checkOwner(path string) error {
	security, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	owner, _, err := security.Owner()
	if err != nil {
		return err
	}
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	if owner.IsWellKnown(windows.WinLocalSystemSid) || owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) ||
		owner.Equals(me.User.Sid) {
		return nil
	}
	return fmt.Errorf("%s belongs to %s, which is neither LocalSystem nor the administrators: remove it", path, owner)
}

package platform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// private is full access for LocalSystem and administrators, here and below, and none for others. P: what the folder
// above grants is not inherited. %ProgramData% lets every user make files.
const private = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"

// MakeFolder makes a folder that only administrators can use, or sees that the one which is there is such a folder.
func MakeFolder(path string) error {
	if err := makeAbove(filepath.Dir(path)); err != nil {
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
		return takeFolder(path, access)
	}
	return err
}

// makeAbove makes the folder above such a folder: the daemon's folder is one too.
func makeAbove(path string) error {
	if path == DataDir() {
		return MakeFolder(path)
	}
	return os.MkdirAll(path, 0o755)
}

// takeFolder restricts a folder of the administrators that inherits its access list. One with a list of its own keeps
// that: administrators have chosen it.
func takeFolder(path string, access *windows.SECURITY_DESCRIPTOR) error {
	folder, err := openItself(path, windows.READ_CONTROL|windows.WRITE_DAC)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(folder)
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(folder, &info); err != nil {
		return err
	}
	const kind = windows.FILE_ATTRIBUTE_DIRECTORY | windows.FILE_ATTRIBUTE_REPARSE_POINT
	if info.FileAttributes&kind != windows.FILE_ATTRIBUTE_DIRECTORY {
		return fmt.Errorf("%s is a file or a link and not a folder: remove it", path)
	}
	security, err := checkAccess(path, folder)
	if err != nil {
		return err
	}
	if control, _, err := security.Control(); err != nil || control&windows.SE_DACL_PROTECTED != 0 {
		return err
	}
	list, _, err := access.DACL()
	if err != nil {
		return err
	}
	return windows.SetSecurityInfo(folder, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil)
}

// CheckFile refuses a file that another user has made, before the folder was restricted. It is no error that there is
// none.
func CheckFile(path string) error {
	file, err := openItself(path, windows.READ_CONTROL)
	if errors.Is(err, windows.ERROR_FILE_NOT_FOUND) || errors.Is(err, windows.ERROR_PATH_NOT_FOUND) {
		return nil
	}
	if err != nil {
		return err
	}
	defer windows.CloseHandle(file)
	_, err = checkAccess(path, file)
	return err
}

// openItself opens a file or folder, and of a link the link.
func openItself(path string, access uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	const flags = windows.FILE_FLAG_BACKUP_SEMANTICS | windows.FILE_FLAG_OPEN_REPARSE_POINT
	file, err := windows.CreateFile(name, access|windows.FILE_READ_ATTRIBUTES, share, nil, windows.OPEN_EXISTING, flags, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", path, err)
	}
	return file, nil
}

// checkAccess returns the access list of a file. An owner can always change that list, and must not be another user.
func checkAccess(path string, file windows.Handle) (*windows.SECURITY_DESCRIPTOR, error) {
	security, err := windows.GetSecurityInfo(file, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return nil, fmt.Errorf("read who may use %s: %w", path, err)
	}
	owner, _, err := security.Owner()
	if err != nil {
		return nil, fmt.Errorf("read the owner of %s: %w", path, err)
	}
	me, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("read the user that portald runs as: %w", err)
	}
	return security, checkOwner(path, owner, me.User.Sid)
}

func checkOwner(path string, owner, me *windows.SID) error {
	if owner.IsWellKnown(windows.WinLocalSystemSid) || owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) ||
		owner.Equals(me) {
		return nil
	}
	return fmt.Errorf("%s belongs to %s, which is neither LocalSystem nor the administrators: remove it", path, owner)
}

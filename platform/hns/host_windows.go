package hns

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// computenetwork is there since Windows Server 2019, and missing under Wine.
var computenetwork = windows.NewLazySystemDLL("computenetwork.dll")

// host is the HNS of this host.
type host struct{}

// call calls a function that returns an HRESULT. Its last argument is for a document that describes an error. What the
// arguments point to stays where it is until call returns.
//
//go:uintptrescapes
func call(name string, args ...uintptr) error {
	proc := computenetwork.NewProc(name)
	if err := proc.Find(); err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	var record *uint16
	result, _, _ := proc.Call(append(args, uintptr(unsafe.Pointer(&record)))...)
	return failure(name, uint32(result), take(record))
}

// failure is the error of an HRESULT, of which the highest bit tells that it is one.
func failure(name string, result uint32, record string) error {
	if int32(result) >= 0 {
		return nil
	}
	text := strings.TrimSpace(fmt.Sprintf("%s failed with 0x%08x %s", name, result, record))
	return errors.New(text)
}

// take copies a text that the callee allocated, and frees it.
func take(text *uint16) string {
	if text == nil {
		return ""
	}
	defer windows.CoTaskMemFree(unsafe.Pointer(text))
	return windows.UTF16PtrToString(text)
}

func (host) list(k kind, query string) (string, error) {
	asked, err := windows.UTF16PtrFromString(query)
	if err != nil {
		return "", err
	}
	var document *uint16
	err = call("HcnEnumerate"+string(k)+"s", uintptr(unsafe.Pointer(asked)), uintptr(unsafe.Pointer(&document)))
	return take(document), err
}

func (host) properties(k kind, id, query string) (string, error) {
	guid, err := windows.GUIDFromString("{" + strings.Trim(id, "{}") + "}")
	if err != nil {
		return "", fmt.Errorf("HNS %s %q: %w", k, id, err)
	}
	asked, err := windows.UTF16PtrFromString(query)
	if err != nil {
		return "", err
	}
	var object uintptr
	err = call("HcnOpen"+string(k), uintptr(unsafe.Pointer(&guid)), uintptr(unsafe.Pointer(&object)))
	if err != nil {
		return "", err
	}
	defer computenetwork.NewProc("HcnClose" + string(k)).Call(object)
	var document *uint16
	err = call("HcnQuery"+string(k)+"Properties", object, uintptr(unsafe.Pointer(asked)),
		uintptr(unsafe.Pointer(&document)))
	return take(document), err
}

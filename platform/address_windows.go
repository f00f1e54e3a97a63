package platform

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// The calls by which addresses are changed. Wine lacks them.
var (
	iphlpapi          = windows.NewLazySystemDLL("iphlpapi.dll")
	initializeAddress = iphlpapi.NewProc("InitializeUnicastIpAddressEntry")
	createAddress     = iphlpapi.NewProc("CreateUnicastIpAddressEntry")
	deleteAddress     = iphlpapi.NewProc("DeleteUnicastIpAddressEntry")
)

// ChangeAddress adds an address to the interface of a LUID, or removes it, by calls of Windows. What they add is there
// until the next boot, without a subnet, and not to be chosen as source address. It returns an error that wraps
// errors.ErrUnsupported where there are no such calls.
func ChangeAddress(luid uint64, a netip.Addr, add bool) error {
	call, done := deleteAddress, windows.ERROR_NOT_FOUND
	if add {
		call, done = createAddress, windows.ERROR_OBJECT_ALREADY_EXISTS
	}
	for _, p := range []*windows.LazyProc{initializeAddress, call} {
		if err := p.Find(); err != nil {
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
	}
	var row windows.MibUnicastIpAddressRow
	initializeAddress.Call(uintptr(unsafe.Pointer(&row)))
	fillAddress(&row, luid, a)
	code, _, _ := call.Call(uintptr(unsafe.Pointer(&row)))
	if errno := syscall.Errno(code); errno != 0 && errno != done {
		return fmt.Errorf("%s: %w (%d)", call.Name, errno, code)
	}
	return nil
}

// fillAddress describes an address that does not expire.
func fillAddress(row *windows.MibUnicastIpAddressRow, luid uint64, a netip.Addr) {
	row.InterfaceLuid = luid
	row.OnLinkPrefixLength = uint8(a.BitLen())
	row.SkipAsSource = 1
	row.ValidLifetime, row.PreferredLifetime = math.MaxUint32, math.MaxUint32
	if a.Is4() {
		to := (*windows.RawSockaddrInet4)(unsafe.Pointer(&row.Address))
		to.Family, to.Addr = windows.AF_INET, a.As4()
		return
	}
	row.Address.Family, row.Address.Addr = windows.AF_INET6, a.As16()
}

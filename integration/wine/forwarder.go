package wine

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
)

// Layout of the DLL: headers, then one section with the export directory.
const (
	fileAlignment    = 0x200
	sectionAlignment = 0x1000
	exportRVA        = sectionAlignment
)

// forward is a function that a DLL exports and another DLL has.
type forward struct {
	dll, function string
	to            string // DLL.FUNCTION
}

// processPrng has been needed by the Go runtime since Go 1.22; RtlGenRandom, exported as SystemFunction036, does the
// same.
var processPrng = forward{"bcryptprimitives.dll", "ProcessPrng", "ADVAPI32.SystemFunction036"}

// image returns a 64-bit DLL without code: its only content is the forwarded function.
func (f forward) image() []byte {
	exports := f.exports()
	section := make([]byte, roundUp(len(exports), fileAlignment))
	copy(section, exports)
	return append(headers(len(exports), len(section)), section...)
}

// exports is the export directory with one function. An address that lies inside the directory is not one of code but
// of the name that the loader forwards to.
func (f forward) exports() []byte {
	const directory = 40                                                       // bytes of IMAGE_EXPORT_DIRECTORY
	const functions, names, ordinals = directory, directory + 4, directory + 8 // arrays of one element each
	const dll = directory + 12                                                 // texts follow, each with a final zero
	function := dll + len(f.dll) + 1
	to := function + len(f.function) + 1
	at := func(offset int) uint32 { return exportRVA + uint32(offset) }
	const flags, date, version, base, count = 0, 0, 0, 1, 1
	return slice(
		[]uint32{flags, date, version, at(dll), base, count, count, at(functions), at(names), at(ordinals)},
		[]uint32{at(to), at(function), 0},
		[]byte(f.dll+"\x00"+f.function+"\x00"+f.to+"\x00"),
	)
}

// headers are all that precedes the section: an empty DOS program, and the headers that the loader reads. Numbers and
// names are those of Microsoft's PE format.
func headers(size, raw int) []byte {
	dos := make([]byte, 64)
	copy(dos, "MZ")
	dos[60] = byte(len(dos)) // e_lfanew: where the PE header begins
	optional := pe.OptionalHeader64{
		Magic: 0x20b, ImageBase: 0x180000000,
		SectionAlignment: sectionAlignment, FileAlignment: fileAlignment,
		SizeOfInitializedData: uint32(raw), SizeOfImage: 2 * sectionAlignment, SizeOfHeaders: fileAlignment,
		MajorOperatingSystemVersion: 6, MajorSubsystemVersion: 6, Subsystem: pe.IMAGE_SUBSYSTEM_WINDOWS_CUI,
		DllCharacteristics:  pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT | pe.IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE,
		NumberOfRvaAndSizes: 16,
	}
	exports := pe.DataDirectory{VirtualAddress: exportRVA, Size: uint32(size)}
	optional.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT] = exports
	file := pe.FileHeader{
		Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: 1,
		SizeOfOptionalHeader: uint16(binary.Size(optional)),
		Characteristics:      pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_LARGE_ADDRESS_AWARE | pe.IMAGE_FILE_DLL,
	}
	section := pe.SectionHeader32{
		Name: [8]uint8{'.', 'e', 'd', 'a', 't', 'a'}, VirtualSize: uint32(size), VirtualAddress: exportRVA,
		SizeOfRawData: uint32(raw), PointerToRawData: fileAlignment,
		Characteristics: pe.IMAGE_SCN_CNT_INITIALIZED_DATA | pe.IMAGE_SCN_MEM_READ,
	}
	written := slice(dos, []byte("PE\x00\x00"), file, optional, section)
	return append(written, make([]byte, fileAlignment-len(written))...)
}

// slice lays values of fixed size out one after the other.
func slice(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		_ = binary.Write(&b, binary.LittleEndian, v) // a Buffer takes everything
	}
	return b.Bytes()
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

package wine

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"testing"
)

// The loader's way from the header to the name of the other function, by the tables of Microsoft's PE format.
func TestForwarder(t *testing.T) {
	image := forward{"one.dll", "Function", "OTHER.Other"}.image()
	file, err := pe.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	directory := file.OptionalHeader.(*pe.OptionalHeader64).DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT]
	section := file.Sections[0]
	content, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	number := func(rva uint32) uint32 { return binary.LittleEndian.Uint32(content[rva-section.VirtualAddress:]) }
	text := func(rva uint32) string {
		s, _, _ := bytes.Cut(content[rva-section.VirtualAddress:], []byte{0})
		return string(s)
	}
	const offsetDLL, offsetFunctions, offsetNames = 12, 28, 32
	at := directory.VirtualAddress
	function := number(number(at + offsetFunctions))
	got := forward{text(number(at + offsetDLL)), text(number(number(at + offsetNames))), text(function)}
	if want := (forward{"one.dll", "Function", "OTHER.Other"}); got != want {
		t.Errorf("the DLL says %q, want %q", got, want)
	}
	if function < at || function >= at+directory.Size {
		t.Errorf("the function is at %#x, outside the directory [%#x, %#x): the loader takes it for code",
			function, at, at+directory.Size)
	}
}

package wine

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
)

// Patched counts the places that Patch changed.
type Patched struct {
	UDP       int // 1 in a program that uses UDP
	RemoveAll int // 1 in a program that calls os.RemoveAll
}

// Numbers of Windows, from winsock2.h, mswsock.h and ntstatus.h.
const (
	sioUDPConnReset = 0x9800000c
	sioUDPNetReset  = 0x9800000f

	statusNotImplemented   = 0xc0000002
	statusInvalidInfoClass = 0xc0000003
	statusInvalidParameter = 0xc000000d
	statusNotSupported     = 0xc00000bb
)

// Patch adapts a program built by Go for windows/amd64 to Wine 8.0, in place. Two constants change, and no other byte:
//
//   - Each UDP socket of the net package asks for SIO_UDP_CONNRESET and then for SIO_UDP_NETRESET, which Wine refuses.
//     It asks for the first one twice.
//   - os.RemoveAll falls back to an older call of the file system on certain status codes. Wine answers
//     STATUS_NOT_IMPLEMENTED, which takes the place of STATUS_NOT_SUPPORTED among them.
//
// A constant found at more places than one is an error: another version of Go may compile other code.
func Patch(program []byte) (Patched, error) {
	file, err := pe.NewFile(bytes.NewReader(program))
	if err != nil {
		return Patched{}, fmt.Errorf("read the program: %w", err)
	}
	var p Patched
	for _, s := range file.Sections {
		content := program[s.Offset:min(uint64(s.Offset)+uint64(s.Size), uint64(len(program)))]
		switch s.Name {
		case ".text":
			p.UDP = replace(content, sioUDPNetReset, sioUDPConnReset, 512, sioUDPConnReset)
		case ".rdata":
			p.RemoveAll = replace(content, statusNotSupported, statusNotImplemented, 64,
				statusInvalidInfoClass, statusInvalidParameter)
		}
	}
	if p.UDP > 1 || p.RemoveAll > 1 {
		return p, fmt.Errorf("ambiguous: %d places with SIO_UDP_NETRESET, %d with the statuses of os.RemoveAll",
			p.UDP, p.RemoveAll)
	}
	return p, nil
}

// replace writes another number wherever it finds one that has all its neighbours within some bytes, and returns how
// often it did.
func replace(in []byte, number, by uint32, within int, neighbours ...uint32) int {
	count := 0
	for at := 0; ; {
		i := bytes.Index(in[at:], littleEndian(number))
		if i < 0 {
			return count
		}
		at += i
		around := in[max(0, at-within):min(len(in), at+within)]
		if containsAll(around, neighbours) {
			binary.LittleEndian.PutUint32(in[at:], by)
			count++
		}
		at += 4
	}
}

func containsAll(b []byte, numbers []uint32) bool {
	for _, n := range numbers {
		if !bytes.Contains(b, littleEndian(n)) {
			return false
		}
	}
	return true
}

func littleEndian(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

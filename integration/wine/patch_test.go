package wine

import (
	"bytes"
	"testing"
)

func TestReplace(t *testing.T) {
	const number, by, near = 0x11223344, 0x55667788, 0x99aabbcc
	far := make([]byte, 32)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	n, b, beside := littleEndian(number), littleEndian(by), littleEndian(near)
	for _, c := range []struct {
		name     string
		in, want []byte
		count    int
	}{
		{"beside", join(n, beside), join(b, beside), 1},
		{"before", join(beside, n), join(beside, b), 1},
		{"alone", n, n, 0},
		{"too far away", join(n, far, beside), join(n, far, beside), 0},
		{"two", join(n, beside, n), join(b, beside, b), 2},
		{"at an odd address", join([]byte{1}, n, beside), join([]byte{1}, b, beside), 1},
		{"cut off", n[:3], n[:3], 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := bytes.Clone(c.in)
			if count := replace(in, number, by, 16, near); count != c.count || !bytes.Equal(in, c.want) {
				t.Errorf("%x: %d times, want %x, %d times", in, count, c.want, c.count)
			}
		})
	}
}

func TestPatchOfNoProgram(t *testing.T) {
	if _, err := Patch([]byte("#!/bin/sh\n")); err == nil {
		t.Error("a script is taken for a program")
	}
}

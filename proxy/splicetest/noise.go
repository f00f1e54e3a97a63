package splicetest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"sync"
)

// noise has random bytes for all scenarios. To fill and to grow large slices for each is slow with the race detector:
// it took a third of the CPU time.
var noise = sync.OnceValue(func() []byte {
	b := make([]byte, 24<<20)
	rand.Read(b)
	return b
})

// noiseOf returns n random bytes, 16 MiB at most. They are not to be changed.
func noiseOf(n int) []byte {
	all := noise()
	at := mathrand.IntN(len(all) - n)
	return all[at : at+n]
}

// stream is what one side sends, in parts.
type stream [][]byte

func (s stream) size() (n int) {
	for _, part := range s {
		n += len(part)
	}
	return n
}

// without is the stream without its first n bytes.
func (s stream) without(n int) (rest stream) {
	for _, part := range s {
		skip := min(n, len(part))
		rest, n = append(rest, part[skip:]), n-skip
	}
	return rest
}

// receive reads until the end or an error, and returns how many bytes of the stream came. It stops at others.
func (s stream) receive(from io.Reader) (n int, err error) {
	buf := make([]byte, 64<<10)
	for {
		got, err := from.Read(buf)
		if !s.without(n).begins(buf[:got]) {
			return n, fmt.Errorf("other bytes came after %d of %d", n, s.size())
		}
		n += got
		switch err {
		case nil:
		case io.EOF:
			return n, nil
		default:
			return n, err
		}
	}
}

// begins tells whether these are its first bytes.
func (s stream) begins(first []byte) bool {
	for _, part := range s {
		k := min(len(part), len(first))
		if !bytes.Equal(part[:k], first[:k]) {
			return false
		}
		first = first[k:]
	}
	return len(first) == 0
}

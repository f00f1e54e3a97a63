package payload

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// memory grants so many bytes.
type memory struct{ left int64 }

func (m *memory) Take(n int64) bool {
	if n > m.left {
		return false
	}
	m.left -= n
	return true
}

func (m *memory) Give(n int64) { m.left += n }

// plenty is more than any test takes.
const plenty = 1 << 20

// streamOf returns so many bytes, no part of which is like another.
func streamOf(n int) []byte {
	b := make([]byte, n)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// show shows a part of a stream, in loads of a size.
func show(s *Stream, stream []byte, from, to, load int) {
	for ; from < to; from += load {
		s.Observe(int64(from), stream[from:min(from+load, to)])
	}
}

// wantParts expects parts at these places of a stream: pairs of an offset and an end.
func wantParts(t *testing.T, d Direction, stream []byte, places ...int) {
	t.Helper()
	if len(d.Parts) != len(places)/2 {
		t.Fatalf("%d parts, want %d", len(d.Parts), len(places)/2)
	}
	for i, p := range d.Parts {
		begin, end := places[2*i], places[2*i+1]
		if p.Offset != int64(begin) || !bytes.Equal(p.Data, stream[begin:end]) {
			t.Errorf("part %d is %d bytes at %d, or others, want those from %d to %d", i, len(p.Data), p.Offset, begin, end)
		}
	}
}

// The first and the last 2 kB are kept, at their places, in whatever loads they come, and nothing twice.
func TestPlaces(t *testing.T) {
	for n, places := range map[int][]int{
		0: nil, 1: {0, 1}, 255: {0, 255}, 257: {0, 257}, Most - 1: {0, Most - 1}, Most: {0, Most},
		Most + 1:   {0, Most, Most, Most + 1},
		3000:       {0, Most, Most, 3000},
		2 * Most:   {0, Most, Most, 2 * Most},
		2*Most + 1: {0, Most, Most + 1, 2*Most + 1},
		100_000:    {0, Most, 100_000 - Most, 100_000},
	} {
		stream := streamOf(n)
		for _, load := range []int{1, 100, 700, Most, Most + 1, 5000, 70_000} {
			m := &memory{plenty}
			k := NewKeeper(m)
			show(&k.FromClient, stream, 0, n, load)
			if used := plenty - m.left; used > 2*Most {
				t.Errorf("%d bytes in loads of %d take %d", n, load, used)
			}
			kept := k.End(int64(n), 0)
			wantParts(t, kept.FromClient, stream, places...)
			wantParts(t, kept.FromEndpoint, nil)
			if kept.FromClient.Lacks != "" || kept.FromClient.Bytes != int64(n) {
				t.Errorf("%d bytes in loads of %d: %+v", n, load, kept.FromClient)
			}
			if m.left != plenty {
				t.Errorf("%d bytes of memory were not given back", plenty-m.left)
			}
		}
	}
}

// What was not seen is said, and no part reaches over it.
func TestGaps(t *testing.T) {
	stream := streamOf(20_000)
	for name, c := range map[string]struct {
		shown  []int // from, to
		places []int
		lacks  string
	}{
		"the beginning": {[]int{5000, 6000}, []int{5000, 6000},
			"5000 bytes were not seen: they came before the annotation, or another portald carried them"},
		"in between": {[]int{0, 100, 10_000, 10_010}, []int{0, 100, 10_000, 10_010},
			"9900 bytes were not seen: they came before the annotation, or another portald carried them"},
		"in between the last": {[]int{0, 3000, 3500, 3600}, []int{0, Most, 3500, 3600},
			"500 bytes were not seen: they came before the annotation, or another portald carried them"},
		"all": {nil, nil, "20000 bytes were not seen"},
		"the end": {[]int{0, 19_000}, []int{0, Most, 19_000 - Most, 19_000},
			"the last 1000 bytes were not seen: they came when the connection had ended"},
	} {
		k := NewKeeper(&memory{plenty})
		for i := 0; i < len(c.shown); i += 2 {
			show(&k.FromEndpoint, stream, c.shown[i], c.shown[i+1], 300)
		}
		total := len(stream)
		if n := len(c.shown); n > 0 && name != "the end" {
			total = c.shown[n-1]
		}
		kept := k.End(0, int64(total)).FromEndpoint
		t.Log(name)
		wantParts(t, kept, stream, c.places...)
		if kept.Lacks != c.lacks {
			t.Errorf("%s: lacks %q, want %q", name, kept.Lacks, c.lacks)
		}
	}
}

// With too little memory less is kept, which is said, and still the end of what was seen.
func TestScarceMemory(t *testing.T) {
	stream := streamOf(10_000)
	for left, places := range map[int64][]int{
		0: nil, 256: {0, 256}, 512: {0, 512}, 700: {0, 512}, 2048: {0, 2048}, 2048 + 512: {0, 2048, 10_000 - 512, 10_000},
	} {
		m := &memory{left}
		k := NewKeeper(m)
		show(&k.FromClient, stream, 0, len(stream), 100)
		kept := k.End(int64(len(stream)), 0).FromClient
		t.Log(left)
		wantParts(t, kept, stream, places...)
		if kept.Lacks != "memory for the payload of open connections was scarce" || m.left != left {
			t.Errorf("with %d bytes: lacks %q, %d are left", left, kept.Lacks, m.left)
		}
	}
}

// Nothing is kept of what comes when all was let go.
func TestRelease(t *testing.T) {
	m := &memory{plenty}
	k := NewKeeper(m)
	show(&k.FromClient, streamOf(5000), 0, 5000, 1000)
	k.Release()
	k.Release()
	k.FromClient.Observe(5000, []byte("more"))
	if m.left != plenty {
		t.Errorf("%d bytes are taken", plenty-m.left)
	}
}

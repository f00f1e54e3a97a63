package connlog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/proxy/record"
)

func recordIDs(all []*record.Record) (ids []uint64) {
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestStreamKeepsTheLast(t *testing.T) {
	s := NewStream(4)
	if got := s.Last(10, nil); len(got) != 0 {
		t.Fatalf("%d records of none", len(got))
	}
	for id := range uint64(10) {
		s.Observe(numbered(id))
	}
	odd := func(r *record.Record) bool { return r.ID%2 == 1 }
	for _, c := range []struct {
		n    int
		keep func(*record.Record) bool
		want []uint64
	}{{10, nil, []uint64{6, 7, 8, 9}}, {3, nil, []uint64{7, 8, 9}}, {0, nil, nil}, {10, odd, []uint64{7, 9}},
		{1, odd, []uint64{9}}} {
		if got := recordIDs(s.Last(c.n, c.keep)); !slices.Equal(got, c.want) {
			t.Errorf("last %d: %v, want %v", c.n, got, c.want)
		}
	}
}

// A follower's records begin where its Last ends.
func TestFollowersGoOnFromTheLast(t *testing.T) {
	s := NewStream(100)
	s.Observe(numbered(1))
	s.Observe(numbered(2))
	f := s.Follow(0)
	defer f.Close()
	s.Observe(numbered(3))
	if got := recordIDs(f.Last(100, nil)); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("before it began: %v", got)
	}
	if r, missed, err := f.Next(t.Context()); err != nil || missed != 0 || r.ID != 3 {
		t.Errorf("record %v, %d missed, %v", r, missed, err)
	}
}

func TestSlowFollowersLearnWhatTheyMissed(t *testing.T) {
	s := NewStream(100)
	for behind, want := range map[int]uint64{0: 900, 10: 990, 1000: 900} {
		f := s.Follow(behind)
		for id := range uint64(1000) {
			s.Observe(numbered(id))
		}
		r, missed, err := f.Next(t.Context())
		if err != nil || missed != want || r.ID != want {
			t.Errorf("%d behind: record %v after %d missed, %v", behind, r.ID, missed, err)
		}
		if r, missed, _ = f.Next(t.Context()); r.ID != want+1 || missed != 0 {
			t.Errorf("%d behind: record %v after %d missed then", behind, r.ID, missed)
		}
		f.Close()
	}
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStream(10)
		f := s.Follow(0)
		for range 3 { // a wake-up that was not needed does no harm
			go func() { time.Sleep(time.Second); s.Observe(numbered(7)) }()
			if r, _, err := f.Next(t.Context()); err != nil || r.ID != 7 {
				t.Fatal(r, err)
			}
			s.Observe(numbered(8))
			if r, _, err := f.Next(t.Context()); err != nil || r.ID != 8 {
				t.Fatal(r, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := f.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		go func() { time.Sleep(time.Second); f.Close(); f.Close() }()
		if _, _, err := f.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		synctest.Wait() // Close wakes Next before it returns
		if n := len(*s.followers.list.Load()); n != 0 {
			t.Fatalf("%d followers are left", n)
		}
	})
}

// Records of many goroutines: each follower gets or misses every one, none twice, each goroutine's in order.
func TestStreamUnderConcurrency(t *testing.T) {
	const writers, each = 4, 20_000
	s := NewStream(64)
	var readers, writing sync.WaitGroup
	var ended atomic.Bool
	for range 3 {
		f := s.Follow(0)
		readers.Go(func() {
			defer f.Close()
			var got, missed uint64
			var last [writers]uint64
			for got+missed < writers*each {
				r, n, err := f.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				got, missed = got+1, missed+n
				writer, id := r.ID>>32, r.ID&(1<<32-1)
				if id <= last[writer] {
					t.Errorf("record %d of writer %d comes after %d", id, writer, last[writer])
				}
				last[writer] = id
			}
			if got == 0 || got+missed != writers*each {
				t.Errorf("%d records and %d missed of %d", got, missed, writers*each)
			}
		})
	}
	readers.Go(func() {
		for !ended.Load() {
			if n := len(s.Last(1000, nil)); n > 64 {
				t.Errorf("%d records of 64", n)
			}
		}
	})
	for w := range uint64(writers) {
		writing.Go(func() {
			for id := range uint64(each) {
				s.Observe(numbered(w<<32 | id + 1))
			}
		})
	}
	writing.Wait()
	ended.Store(true)
	readers.Wait()
}

// BenchmarkStream measures the cost of the stream for a connection, without and with a follower.
func BenchmarkStream(b *testing.B) {
	r := sample()
	for name, follow := range map[string]bool{"alone": false, "followed": true} {
		b.Run(name, func(b *testing.B) {
			s := NewStream(DefaultStream)
			ctx, cancel := context.WithCancel(b.Context())
			var reading sync.WaitGroup
			if follow {
				f := s.Follow(0)
				reading.Go(func() {
					for _, _, err := f.Next(ctx); err == nil; _, _, err = f.Next(ctx) {
					}
				})
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					s.Observe(r)
				}
			})
			cancel()
			reading.Wait()
		})
	}
}

// A follower learns with the next record of those that never came to be.
func TestStreamTellsOfLostRecords(t *testing.T) {
	s := NewStream(4)
	s.Lost(9) // before anybody followed
	f := s.Follow(0)
	defer f.Close()
	s.Lost(3)
	for _, want := range []uint64{3, 0} {
		s.Observe(&record.Record{})
		if _, missed, err := f.Next(t.Context()); err != nil || missed != want {
			t.Errorf("missed %d, want %d, %v", missed, want, err)
		}
	}
}

// A stream is complete since it was made, since its oldest record of an earlier daemon, or since the oldest that is
// left.
func TestStreamSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := time.Now()
		s := NewStream(2)
		ended := func(id uint64, end time.Time) {
			s.Observe(&record.Record{ID: id, Start: end.Add(-time.Minute), Duration: time.Minute})
		}
		for i, want := range []time.Time{made, made, made.Add(time.Second), made.Add(2 * time.Second)} {
			ended(uint64(i), made.Add(time.Duration(i)*time.Second))
			if got := s.Since(); !got.Equal(want) {
				t.Errorf("after %d records: %v, want %v", i+1, got, want)
			}
		}
		s = NewStream(2)
		if got := s.Since(); !got.Equal(made) {
			t.Errorf("without a record: %v, want %v", got, made)
		}
		ended(1, made.Add(-time.Hour))
		if got, want := s.Since(), made.Add(-time.Hour); !got.Equal(want) {
			t.Errorf("with one of the daemon before: %v, want %v", got, want)
		}
	})
}

package metrics

import "testing"

// Ten thousand Services, each used through one endpoint: all of a scrape, and the part that syncs wait for.
func BenchmarkScrape(b *testing.B) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	for _, namespace := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		crowd(m, namespace, 1000)
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := m.registry.Gather(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("locked", func(b *testing.B) {
		for b.Loop() {
			m.conns.snapshot()
		}
	})
}

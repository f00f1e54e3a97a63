package metrics

import "github.com/prometheus/client_golang/prometheus"

// Fates of the connections of a portald before this one.
const (
	fateLive  = "live"  // it goes on here
	fateStays = "stays" // the other portald carries it until it ends
	fateEnded = "ended" // its peers had ended it
	fateReset = "reset" // nobody can go on with it
)

func inherited() *prometheus.CounterVec {
	return counters("portald_inherited_connections_total",
		"TCP connections of the previous portald, by what became of them, and by whether it handed over (from: "+
			"predecessor) or died (from: keeper).", "fate", "from")
}

// TookOver counts the connections that a predecessor has passed on, and those that stay with it.
func (m *Metrics) TookOver(live, stay int) {
	m.inherited.WithLabelValues(fateLive, "predecessor").Add(float64(live))
	m.inherited.WithLabelValues(fateStays, "predecessor").Add(float64(stay))
}

// Recovered counts the connections that a keeper kept of a portald that died.
func (m *Metrics) Recovered(live, ended, reset int) {
	for fate, n := range map[string]int{fateLive: live, fateEnded: ended, fateReset: reset} {
		m.inherited.WithLabelValues(fate, "keeper").Add(float64(n))
	}
}

// WatchKeeper exports whether a keeper has all that is open, and how many connections were too large for it, which it
// reads at each scrape. It may be called once.
func (m *Metrics) WatchKeeper(connected func() bool, large func() uint64) {
	m.registry.MustRegister(counterFunc("portald_unkept_connections_total",
		"Connections that the keeper did not get because their state does not fit into a message.", large))
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portald_keeper_connected",
		Help: "Whether a keeper holds open connections in case this portald crashes. No series: there was no " +
			"keeper at start.",
	}, func() float64 {
		if connected() {
			return 1
		}
		return 0
	}))
}

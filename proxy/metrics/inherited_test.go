package metrics

import "testing"

func TestMetricsOfWhatIsInherited(t *testing.T) {
	wantMetrics(t, exercised(t), `
# HELP portald_inherited_connections_total TCP connections of the previous portald, by what became of them, and by whether it handed over (from: predecessor) or died (from: keeper).
# TYPE portald_inherited_connections_total counter
portald_inherited_connections_total{fate="ended",from="keeper"} 2
portald_inherited_connections_total{fate="live",from="keeper"} 7
portald_inherited_connections_total{fate="live",from="predecessor"} 20
portald_inherited_connections_total{fate="reset",from="keeper"} 1
portald_inherited_connections_total{fate="stays",from="predecessor"} 1
# HELP portald_keeper_connected Whether a keeper holds open connections in case this portald crashes. No series: there was no keeper at start.
# TYPE portald_keeper_connected gauge
portald_keeper_connected 1
# HELP portald_unkept_connections_total Connections that the keeper did not get because their state does not fit into a message.
# TYPE portald_unkept_connections_total counter
portald_unkept_connections_total 5
`, "portald_inherited_connections_total", "portald_keeper_connected", "portald_unkept_connections_total")
}

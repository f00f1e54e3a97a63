package metrics

import "testing"

func TestMetricsOfWhatIsInherited(t *testing.T) {
	wantMetrics(t, exercised(t), `
# HELP portald_inherited_connections_total TCP connections of the portald before this one, by what became of them: those of one that hands over, or of one that died (from: predecessor, keeper).
# TYPE portald_inherited_connections_total counter
portald_inherited_connections_total{fate="ended",from="keeper"} 2
portald_inherited_connections_total{fate="live",from="keeper"} 7
portald_inherited_connections_total{fate="live",from="predecessor"} 20
portald_inherited_connections_total{fate="reset",from="keeper"} 1
portald_inherited_connections_total{fate="stays",from="predecessor"} 1
# HELP portald_keeper_connected Whether a keeper holds what is open in case this portald crashes. No series: none was there at its start.
# TYPE portald_keeper_connected gauge
portald_keeper_connected 1
# HELP portald_unkept_connections_total Connections that the keeper did not get, since what is known of one does not fit into a message.
# TYPE portald_unkept_connections_total counter
portald_unkept_connections_total 5
`, "portald_inherited_connections_total", "portald_keeper_connected", "portald_unkept_connections_total")
}

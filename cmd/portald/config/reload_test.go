package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
)

func TestReload(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	tests := map[string]struct {
		from, to         string
		applied, restart []string
	}{
		"nothing": {kubeHead, kubeHead + "mode: ''\noomScoreAdj: -999\n", nil, nil},
		"nothing that is": {kubeHead, kubeHead +
			"ipvs: {scheduler: lc, syncPeriod: 1s}\nfeatureGates: {A: true}\nfresh: 1\n", nil, nil},
		"the log": {kubeHead, kubeHead + "logging: {verbosity: 4, format: json}\n",
			[]string{"logging.verbosity changed from 0 to 4"},
			[]string{"logging.format changed from text to json: takes effect at the next start"}},
		"how it carries": {portaldHead, portaldHead + "connectTimeouts: [1s]\nidleTimeout: 1m\nhalfCloseTimeout: " +
			"1m\nudpTimeout: 1s\nmaxConnections: 5\nclientAddress: proxy-v2\nretries: 1\ndrainTimeout: 1s\n",
			[]string{"connectTimeouts changed from 250ms,500ms,1s,2s to 1s", "retries changed from <none> to " +
				"1", "halfCloseTimeout changed from 1h0m0s to 1m0s", "idleTimeout changed from 0s to 1m0s", "udpTimeout " +
				"changed from 1m0s to 1s", "maxConnections changed from 0 to 5", "clientAddress changed from node to proxy-v2",
				"drainTimeout changed from 30s to 1s"}, nil},
		"how much each client may have": {portaldHead, portaldHead + "maxConnectionsPerClient: 20\nconnectionRate: 100\n" +
			"connectionRatePerClient: 10\n", []string{"maxConnectionsPerClient changed from 0 to 20",
			"connectionRate changed from 0 to 100", "connectionRatePerClient changed from 0 to 10"}, nil},
		"where it listens": {kubeHead, kubeHead + "nodePortAddresses: [10.0.0.0/8]\nmetricsBindAddress: " +
			"0.0.0.0\n", nil, []string{"metricsBindAddress changed from 127.0.0.1:10249 to 0.0.0.0: takes effect at the " +
			"next start", "nodePortAddresses changed from <none> to 10.0.0.0/8: takes effect at the next start"}},
		"the mode": {kubeHead, kubeHead + "mode: nftables\n---\n" + portaldHead + "writer: nftables\n", nil,
			[]string{"mode changed from \"\" to nftables: takes effect at the next start", "writer changed from iptables " +
				"to nftables: takes effect at the next start",
				"nodePortAddresses changed from <none> to primary: takes effect at the next start"}},
		"the mode's times": {kubeHead + "mode: nftables\n", kubeHead + "mode: nftables\niptables: {syncPeriod: " +
			"1s}\nnftables: {syncPeriod: 2s}\n", nil,
			[]string{"nftables.syncPeriod changed from 30s to 2s: takes effect at the next start"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			from, _, err := complete(t, "--config", inFile(t, test.from))
			check(t, err)
			to, _, err := complete(t, "--config", inFile(t, test.to))
			check(t, err)
			got := from.Reload(to)
			if d := cmp.Diff(test.applied, got.Applied); d != "" {
				t.Errorf("applied (-want +got)\n%s", d)
			}
			if d := cmp.Diff(test.restart, got.Restart); d != "" {
				t.Errorf("at the next start (-want +got)\n%s", d)
			}
			if d := diff(to.Settings, got.Apply); d != "" {
				t.Errorf("settings (-want +got)\n%s", d)
			}
		})
	}
}

// Settings has exactly the fields that are said to take effect at once.
func TestLiveSettingsAreThose(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	from, _, err := complete(t, "--hostname-override=a")
	check(t, err)
	for _, arg := range []string{"--log-level=error", "-v=6", "--connect-timeouts=1s", "--retries=0",
		"--idle-timeout=1s", "--half-close-timeout=1s",
		"--udp-timeout=1s", "--max-connections=1", "--max-connections-per-client=1", "--connection-rate=1",
		"--connection-rate-per-client=1", "--client-address=transparent", "--drain-timeout=1s"} {
		to, _, err := complete(t, "--hostname-override=a", arg)
		check(t, err)
		changes := from.Reload(to)
		if len(changes.Applied) != 1 || len(changes.Restart) != 0 || diff(from.Settings, to.Settings) == "" {
			t.Errorf("%s: %+v", arg, changes)
		}
		to.Settings = from.Settings
		if d := diff(from, to); d != "" {
			t.Errorf("%s changes more than settings that need no restart (-before +after)\n%s", arg, d)
		}
	}
}

func TestSettingsInUse(t *testing.T) {
	c, _, err := complete(t, "--manifests=x", "--drain-timeout=0", "--log-level=trace")
	check(t, err)
	if c.Settings.Drain != 0*time.Second || c.Settings.LogLevel != logrus.TraceLevel {
		t.Errorf("%+v", c.Settings)
	}
}

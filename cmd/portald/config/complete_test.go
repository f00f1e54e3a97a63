package config

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/secret"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inFile writes a configuration file.
func inFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	check(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

const (
	kubeHead    = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	portaldHead = "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\n"
)

// complete parses a command line and completes it, for Linux.
func complete(t *testing.T, args ...string) (*Config, []string, error) {
	t.Helper()
	return completeOn(t, "linux", args...)
}

func completeOn(t *testing.T, system string, args ...string) (*Config, []string, error) {
	t.Helper()
	f := newFlags(system)
	check(t, allFlags(f).Parse(args))
	return f.Complete()
}

func diff(a, b any) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(Config{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmpopts.EquateEmpty())
}

// defaultConfig is kube-proxy's, but for the time between two rounds.
func defaultConfig() *Config {
	return &Config{
		NodeName: "node-a",
		API:      API{ContentType: "application/vnd.kubernetes.protobuf", QPS: 5, Burst: 10},
		Mode:     service.ModeUserspace, ProxyMode: "userspace", Writer: "iptables",
		Masquerade: portal.Masquerade{Mark: 0x4000}, IPVS: IPVS{Scheduler: "rr"},
		HealthAddress: "0.0.0.0:10256", MetricsAddress: "127.0.0.1:10249",
		AdminSocket: "/run/portald/admin.sock", HandOverSocket: "/run/portald/admin-handover.sock",
		KeepSocket: "/run/portald/admin-keep.sock",
		NodePorts:  NodePortAddresses{All: true}, LocalhostNodePorts: [2]bool{true, true},
		DetectLocal: DetectLocal{Mode: ByClusterCIDR},
		ConnectionLog: ConnectionLog{
			Format: "text", Rotation: connlog.Rotation{Size: 100 << 20, Files: 5}, OTLP: OTLP{Changes: true},
		},
		LogPath: "-", LogFormat: "text", UDPSessions: 4096, Engine: "auto",
		SyncPeriod: 30 * time.Second, MinSync: 100 * time.Millisecond,
		ProxyPorts: inet.PortRange{First: 11000, Last: 29999}, OOMScoreAdj: -999,
		Conntrack: Conntrack{MaxPerCore: 32768, Min: 131072, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour},
		Settings: Settings{
			LogLevel: logrus.InfoLevel, Drain: 30 * time.Second, OnExit: onExitKernel,
			Events: connlog.EventSettings{Events: []connlog.Event{connlog.End}, Period: 5 * time.Minute},
			Policy: service.Policy{
				ConnectTimeouts: []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second},
				HedgeAfter:      service.Never, HalfClose: time.Hour, Idle: service.Never, UDPIdle: time.Minute, MaxConnections: -1,
				ClientAddress: service.AddressNode, Logging: service.Logging{Records: service.RecordsAll, Sample: 1},
				Algorithm: service.RoundRobin, SlowStart: service.Never, EjectAfter: 3,
				EjectOn: service.EjectConnect | service.EjectReset, RetryBudget: 20,
				Shares:  noShares(),
				Removed: service.RemovedEndpoint{Do: service.KeepConnections}, DeadPeer: 3 * time.Minute,
				MaxAge:        service.Age{Time: service.Never},
				KernelRecords: service.RecordsOff, RetryOn: service.RetryConnect, WaitForEndpoint: service.Never,
			},
		},
	}
}

func noShares() service.Shares {
	return service.Shares{
		MaxConnectionsPerClient: -1, ConnectionRate: -1, ConnectionRatePerClient: -1, MaxWaiting: 1024,
	}
}

// nftables sets what the mode nftables implies.
func nftables(c *Config) {
	c.Mode, c.ProxyMode, c.Writer = service.ModeKernel, "nftables", "nftables"
	c.NodePorts, c.LocalhostNodePorts = NodePortAddresses{Primary: true}, [2]bool{}
	c.MinSync = 5 * time.Millisecond
}

func TestComplete(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	cidr, addr := netip.MustParsePrefix, netip.MustParseAddr
	tests := []struct {
		name  string
		file  string
		args  string
		want  func(*Config)
		warns []string // a part of each
	}{
		{name: "defaults", want: func(*Config) {}},
		{
			name: "flags of portald",
			args: "--manifests=/a,b --manifests=- --connection-log=- --connection-log-format=json " +
				"--connection-log-max-size=100Mi --connection-log-max-age=24h --connection-log-max-files=3 " +
				"--connection-log-otlp-endpoint=https://collector:4318 --connection-log-otlp-headers=a=b " +
				"--connection-log-otlp-ca-file=/ca --connection-log-otlp-cert-file=/cert --connection-log-otlp-key-file=/key " +
				"--connection-log-otlp-changes=false " +
				"--connection-log-compress --connection-log-events=start,end --connection-log-period=1m " +
				"--external-ip-cidrs=203.0.113.7/24 " +
				"--node-ip=192.0.2.7,2001:db8::7 --connect-timeouts=1s,2s --hedge-after=80ms --half-close-timeout=5m " +
				"--idle-timeout=1h " +
				"--udp-timeout=3s " +
				"--udp-max-sessions=7 --drain-timeout=0s --proxy-port-range=12000+99 --iptables-variant=legacy --log-format=json " +
				"--log-level=warn --max-connections=9 --connection-log-records=failures " +
				"--max-connections-per-client=10 --connection-rate=11 --connection-rate-per-client=12 --max-waiting=13 " +
				"--connection-log-sample=1/20 --client-address=transparent --kernel-records=failures " +
				"--algorithm=source-hash --slow-start=20s " +
				"--service-proxy-name=portald --refused-annotations=mode,kernel-records " +
				"--wait-for-endpoint=30s",
			want: func(c *Config) {
				c.Manifests = []string{"/a,b", "-"}
				c.ConnectionLog = ConnectionLog{"-", "json", connlog.Rotation{
					Size: 100 << 20, Age: 24 * time.Hour, Files: 3, Compress: true,
				}, OTLP{
					secret.NewURL("https://collector:4318"), []secret.Header{secret.NewHeader("a=b")}, "/ca", "/cert", "/key", false,
				}}
				c.ExternalIPs = []netip.Prefix{cidr("203.0.113.0/24")}
				c.NodeIPs = []netip.Addr{addr("192.0.2.7"), addr("2001:db8::7")}
				c.Settings = Settings{LogLevel: logrus.WarnLevel, Policy: service.Policy{
					ConnectTimeouts: []time.Duration{time.Second, 2 * time.Second}, HedgeAfter: 80 * time.Millisecond,
					HalfClose: 5 * time.Minute, Idle: time.Hour,
					UDPIdle: 3 * time.Second, MaxConnections: 9, ClientAddress: service.AddressTransparent,
					Logging:   service.Logging{Records: service.RecordsFailures, Sample: 20},
					Algorithm: service.SourceHash, SlowStart: 20 * time.Second, EjectAfter: 3,
					EjectOn: service.EjectConnect | service.EjectReset, RetryBudget: 20,
					Shares: service.Shares{
						MaxConnectionsPerClient: 10, ConnectionRate: 11, ConnectionRatePerClient: 12, MaxWaiting: 13,
					},
					Removed: service.RemovedEndpoint{Do: service.KeepConnections}, DeadPeer: 3 * time.Minute,
					MaxAge:        service.Age{Time: service.Never},
					KernelRecords: service.RecordsFailures, RetryOn: service.RetryConnect,
					WaitForEndpoint: 30 * time.Second,
				}, Events: connlog.EventSettings{Events: []connlog.Event{connlog.Start, connlog.End}, Period: time.Minute},
					OnExit: onExitCtrlC}
				c.UDPSessions, c.LogFormat, c.IPTablesVariant, c.ServiceProxyName = 7, "json", "legacy", "portald"
				c.RefusedAnnotations = []string{"mode", "kernel-records"}
				c.ProxyPorts = inet.PortRange{First: 12000, Last: 12099}
			},
		},
		{
			name: "flags of kube-proxy",
			args: "--kubeconfig=/k --master=https://192.0.2.1 --kube-api-qps=50 --kube-api-burst=100 " +
				"--kube-api-content-type=application/json " +
				"--bind-address=192.0.2.7 --profiling --bind-address-hard-fail --nodeport-addresses=primary,192.0.2.0/24 " +
				"--iptables-sync-period=1m --iptables-min-sync-period=0 --oom-score-adj=0 --conntrack-max-per-core=0 " +
				"--conntrack-min=1 " +
				"--conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=1s --conntrack-tcp-be-liberal " +
				"--conntrack-udp-timeout=2s --conntrack-udp-timeout-stream=3s --detect-local-mode=InterfaceNamePrefix " +
				"--pod-interface-name-prefix=veth --healthz-bind-address= --metrics-bind-address=0.0.0.0 --logging-format=json -v5",
			want: func(c *Config) {
				c.API = API{"/k", secret.NewURL("https://192.0.2.1"), "application/json", "", 50, 100}
				c.NodeAddress, c.Profiling, c.BindAddressHardFail = addr("192.0.2.7"), true, true
				c.NodePorts, c.LocalhostNodePorts = NodePortAddresses{Primary: true, CIDRs: []netip.Prefix{cidr("192.0.2.0/24")}},
					[2]bool{}
				c.SyncPeriod, c.MinSync, c.OOMScoreAdj = time.Minute, 0, 0
				c.Conntrack = Conntrack{0, 1, 0, time.Second, 2 * time.Second, 3 * time.Second, true}
				c.DetectLocal = DetectLocal{Mode: ByInterfacePrefix, Interface: "veth"}
				c.HealthAddress, c.MetricsAddress = "", "0.0.0.0:10249"
				c.LogFormat, c.Settings.LogLevel = "json", logrus.DebugLevel
			},
		},
		{
			name: "addresses of the servers by the family of the node",
			args: "--bind-address=2001:db8::7",
			want: func(c *Config) {
				c.NodeAddress, c.HealthAddress, c.MetricsAddress = addr("2001:db8::7"), "[::]:10256", "[::1]:10249"
			},
		},
		{
			name:  "old flags of the servers",
			args:  "--healthz-port=0 --metrics-port=9999",
			want:  func(c *Config) { c.HealthAddress, c.MetricsAddress = "", "127.0.0.1:9999" },
			warns: []string{"--healthz-port is deprecated; use --healthz-bind-address", "--metrics-port is deprecated"},
		},
		{
			name:  "old flag beside the new one",
			args:  "--healthz-port=1 --healthz-bind-address=127.0.0.1:2",
			want:  func(c *Config) { c.HealthAddress = "127.0.0.1:2" },
			warns: []string{"--healthz-port has no effect beside --healthz-bind-address"},
		},
		{
			name: "flags without effect",
			args: "--ipvs-scheduler=lc --feature-gates=A=true,B=false --vmodule=a=1 --config-sync-period=1m " +
				"--windows-service --service-cidrs=10.96.0.0/12",
			want: func(c *Config) { c.IPVS.Scheduler, c.ServiceCIDRs = "lc", []netip.Prefix{cidr("10.96.0.0/12")} },
			warns: []string{"--feature-gates has", "--vmodule has", "--config-sync-period has", "--ipvs-scheduler has no " +
				"effect: for the writer ipvs only; the writer is iptables", "--windows-service has",
				"--service-cidrs has no effect: for the writer nftables only"},
		},
		{
			name: "retries beyond the times",
			args: "--connect-timeouts=1s,2s --retries=3",
			want: func(c *Config) {
				c.Settings.Policy.ConnectTimeouts = []time.Duration{time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second}
			},
		},
		{
			name: "no retries",
			args: "--retries=0",
			want: func(c *Config) { c.Settings.Policy.ConnectTimeouts = []time.Duration{250 * time.Millisecond} },
		},
		{
			name: "localhost by a prefix",
			args: "--nodeport-addresses=::1/128",
			want: func(c *Config) {
				c.NodePorts = NodePortAddresses{CIDRs: []netip.Prefix{cidr("::1/128")}}
				c.LocalhostNodePorts = [2]bool{inet.IPv6: true}
			},
		},
		{
			name: "a file of kube-proxy, as it is",
			file: kubeHead + "clientConnection: {kubeconfig: /k}\nclusterCIDR: '10.244.0.0/16,fd00::/56'\nmode: " +
				"''\nhealthzBindAddress: ''\n" +
				"iptables: {syncPeriod: 0s, minSyncPeriod: 0s, localhostNodePorts: null}\nconntrack: {maxPerCore: 0, min: " +
				"null}\nudpIdleTimeout: 250ms\n",
			want: func(c *Config) {
				c.API.Kubeconfig = "/k"
				c.DetectLocal.CIDRs = []netip.Prefix{cidr("10.244.0.0/16"), cidr("fd00::/56")}
				c.Conntrack.MaxPerCore = 0
			},
			warns: []string{"no effect: udpIdleTimeout"},
		},
		{
			name: "flags of kube-proxy lose against its file, but for those of the log and the name",
			file: kubeHead + "clusterCIDR: 10.0.0.0/8\nlogging: {verbosity: 0}\nhostnameOverride: other\n",
			args: "--cluster-cidr=10.1.0.0/16 --proxy-mode=ipvs --healthz-port=1 -v=6 --logging-format=json " +
				"--hostname-override=NODE-A",
			want: func(c *Config) {
				c.DetectLocal.CIDRs, c.Settings.LogLevel, c.LogFormat = []netip.Prefix{cidr("10.0.0.0/8")}, logrus.TraceLevel,
					"json"
			},
			warns: []string{"config.yaml: --proxy-mode, --cluster-cidr, --healthz-port"},
		},
		{
			name: "portald's flags beat its file",
			file: portaldHead + "drainTimeout: 1s\nconnectTimeouts: [1s]\nlog: {level: error, format: " +
				"text}\nproxyPortRange: 12000-12001\n",
			args: "--drain-timeout=0s --connect-timeouts=2s,3s --cluster-cidr=10.0.0.0/8 -v=4 --logging-format=json",
			want: func(c *Config) {
				c.Settings.Drain, c.Settings.LogLevel, c.LogFormat = 0, logrus.DebugLevel, "json"
				c.Settings.Policy.ConnectTimeouts = []time.Duration{2 * time.Second, 3 * time.Second}
				c.ProxyPorts = inet.PortRange{First: 12000, Last: 12001}
				c.DetectLocal.CIDRs = []netip.Prefix{cidr("10.0.0.0/8")} // no KubeProxyConfiguration to lose against
			},
		},
		{
			name: "userspace mode of old",
			file: kubeHead + "mode: userspace\nudpIdleTimeout: 5s\nportRange: 20000+9\n",
			want: func(c *Config) {
				c.Settings.Policy.UDPIdle, c.ProxyPorts = 5*time.Second, inet.PortRange{First: 20000, Last: 20009}
			},
		},
		{
			name: "portald's words beat those of old",
			file: kubeHead + "mode: userspace\nudpIdleTimeout: 5s\n---\n" + portaldHead + "udpTimeout: 9s\n",
			want: func(c *Config) { c.Settings.Policy.UDPIdle = 9 * time.Second },
		},
		{
			name:  "times of the mode",
			file:  kubeHead + "mode: nftables\niptables: {syncPeriod: 7s}\nnftables: {syncPeriod: 20s, minSyncPeriod: 2s}\n",
			want:  func(c *Config) { nftables(c); c.SyncPeriod, c.MinSync = 20*time.Second, 2*time.Second },
			warns: []string{"no effect: iptables.syncPeriod;"},
		},
		{
			name:  "times of iptables by flags, with mode nftables, as in kube-proxy",
			args:  "--proxy-mode=nftables --iptables-sync-period=10s --iptables-min-sync-period=1s --ipvs-sync-period=1m",
			want:  func(c *Config) { nftables(c); c.SyncPeriod, c.MinSync = 10*time.Second, time.Second },
			warns: []string{"--ipvs-sync-period has no effect: the mode uses those of nftables"},
		},
		{
			name:  "servers off by port 0",
			file:  kubeHead + "healthzBindAddress: 0.0.0.0:0\nmetricsBindAddress: '::1'\n",
			want:  func(c *Config) { c.HealthAddress, c.MetricsAddress = "", "[::1]:10249" },
			warns: nil,
		},
		{
			name: "no admin socket",
			file: portaldHead + "adminSocket: ''\n",
			want: func(c *Config) { c.AdminSocket, c.HandOverSocket, c.KeepSocket = "", "", "" },
		},
		{
			name: "an admin socket by a flag",
			file: portaldHead + "adminSocket: ''\n",
			args: "--admin-socket=/run/other.sock",
			want: func(c *Config) {
				c.AdminSocket, c.HandOverSocket = "/run/other.sock", "/run/other-handover.sock"
				c.KeepSocket = "/run/other-keep.sock"
			},
		},
		{
			name: "both documents as JSON",
			file: `{"apiVersion":"kubeproxy.config.k8s.io/v1alpha1","kind":"KubeProxyConfiguration","oomScoreAdj":1}` +
				"\n---\n" +
				`{"apiVersion":"portald.io/v1alpha1","kind":"PortaldConfiguration","udpMaxSessions":2}`,
			want: func(c *Config) { c.OOMScoreAdj, c.UDPSessions = 1, 2 },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"--hostname-override= Node-A "}, strings.Fields(test.args)...)
			if test.file != "" {
				args = append(args, "--config", inFile(t, test.file))
			}
			got, warnings, err := complete(t, args...)
			check(t, err)
			want := defaultConfig()
			test.want(want)
			if d := diff(want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if len(warnings) != len(test.warns) {
				t.Errorf("warnings: %q, want %q", warnings, test.warns)
			}
			for _, part := range test.warns {
				if !strings.Contains(fmt.Sprint(warnings), part) {
					t.Errorf("no warning of %q in %q", part, warnings)
				}
			}
		})
	}
}

// Without a name given it is the host's.
func TestHostName(t *testing.T) {
	host, err := os.Hostname()
	check(t, err)
	c, _, err := complete(t, "--manifests=x")
	check(t, err)
	if c.NodeName != strings.ToLower(host) {
		t.Errorf("%q, want that of %q", c.NodeName, host)
	}
}

// The default of onExit: nothing after Ctrl-C where manifests are served by listeners, as on a workstation; else rules
// of the kernel.
func TestOnExit(t *testing.T) {
	for args, want := range map[string]OnExit{
		"--kubeconfig=k": onExitKernel, "--kubeconfig=k --proxy-mode=iptables": onExitKernel,
		"--kubeconfig=k --on-exit=remove": onExitRemove,
		"--manifests=x":                   onExitCtrlC, "--manifests=x --proxy-mode=userspace": onExitCtrlC,
		"--manifests=x --proxy-mode=nftables": onExitKernel, "--manifests=x --on-exit=kernel": onExitKernel,
		"--manifests=x --proxy-mode=ipvs --on-exit=remove": onExitRemove,
	} {
		if c, _, err := complete(t, strings.Fields(args)...); err != nil || c.Settings.OnExit != want {
			t.Errorf("%s: %v, %v", args, c, err)
		}
	}
	for o, want := range map[OnExit][2]bool{
		onExitKernel: {true, true}, onExitRemove: {false, false}, onExitCtrlC: {true, false},
	} {
		if got := [2]bool{o.ToKernel(false), o.ToKernel(true)}; got != want {
			t.Errorf("%s: to the kernel %v, want %v", o, got, want)
		}
	}
}

// The same flags may be completed again: a file is read again, and what was made before stays.
func TestCompleteAgain(t *testing.T) {
	path := inFile(t, portaldHead+"drainTimeout: 1s\nconnectTimeouts: [1s]\n")
	f := NewFlags()
	check(t, allFlags(f).Parse([]string{"--config", path, "--manifests=x", "--udp-timeout=2s"}))
	first, _, err := f.Complete()
	check(t, err)
	check(t, os.WriteFile(path, []byte(portaldHead+"drainTimeout: 2s\n"), 0o644))
	second, _, err := f.Complete()
	check(t, err)
	if first.Settings.Drain != time.Second || second.Settings.Drain != 2*time.Second {
		t.Errorf("drain %v, then %v", first.Settings.Drain, second.Settings.Drain)
	}
	if len(first.Settings.Policy.ConnectTimeouts) != 1 || len(second.Settings.Policy.ConnectTimeouts) != 4 ||
		second.Settings.Policy.UDPIdle != 2*time.Second {
		t.Errorf("%+v, then %+v", first.Settings.Policy, second.Settings.Policy)
	}
}

func TestVerbosity(t *testing.T) {
	for v, want := range map[string]logrus.Level{
		"0": logrus.InfoLevel, "3": logrus.InfoLevel, "4": logrus.DebugLevel, "5": logrus.DebugLevel,
		"6": logrus.TraceLevel, "10": logrus.TraceLevel,
	} {
		c, _, err := complete(t, "--manifests=x", "-v="+v)
		check(t, err)
		if got := c.NewLogger(os.Stderr).GetLevel(); got != want {
			t.Errorf("-v=%s is %v, want %v", v, got, want)
		}
	}
	c, _, err := complete(t, "--manifests=x", "-v=2", "--log-level=error")
	check(t, err)
	if c.Settings.LogLevel != logrus.ErrorLevel {
		t.Errorf("--log-level beside -v: %v", c.Settings.LogLevel)
	}
}

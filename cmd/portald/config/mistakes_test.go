package config

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// Outside of a pod the daemon is told where Services come from; who only cleans up or writes needs none.
func TestSourceIsMissing(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, _, err := complete(t); err == nil || !strings.Contains(err.Error(), "--manifests is missing") {
		t.Error(err)
	}
	for _, arg := range []string{"--cleanup", "--init-only", "--write-config-to=x", "--master=https://192.0.2.1",
		"--kubeconfig=k"} {
		if _, _, err := complete(t, arg); err != nil {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestEveryBadFlagIsNamed(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, _, err := complete(t, "--connection-log-format=xml",
		"--connection-log-events=end,begin", "--connection-log-period=0s", "--connection-log-max-size=1k",
		"--connection-log-otlp-endpoint=collector:4318", "--connection-log-otlp-headers=secret",
		"--nodeport-addresses=here,there",
		"--external-ip-cidrs=10.0.0.0/99",
		"--half-close-timeout=0s", "--connect-timeouts=1s,0s", "--proxy-port-range=9-8", "--iptables-variant=ebtables",
		"--log-level=loud", "--log-format=xml", "--healthz-bind-address=nowhere", "--metrics-bind-address=0.0.0.0:99999",
		"--admin-socket=admin.sock",
		"--udp-max-sessions=0", "--drain-timeout=-1s", "--idle-timeout=-1s", "--hostname-override= ", "--node-ip=127.0.0.1",
		"--proxy-mode=magic", "--iptables-sync-period=0", "--oom-score-adj=1001", "--kube-api-burst=-1",
		"--service-proxy-name=a/b",
		"--bind-address=me", "--cluster-cidr=10.0.0.0/8,10.1.0.0/16", "--detect-local-mode=Guess", "--retries=-1",
		"--client-address=mine",
		"--max-connections=-1", "--conntrack-min=-1", "--config-sync-period=0", "--iptables-masquerade-bit=32",
		"--logging-format=xml")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"--manifests is missing", "--connection-log-format xml: must be json, text, logfmt or columns",
		"--connection-log-events begin: must be start, attempt, periodic or end", "--connection-log-period 0s: must be 1s",
		"--connection-log-max-size 1k: must be a size of 1Mi or more, such as 100Mi, or 0 for none, or be omitted",
		"--connection-log-otlp-endpoint collector:4318: must be a URL",
		"--connection-log-otlp-headers REDACTED: must be NAME",
		"--nodeport-addresses here: must be a CIDR",
		"--nodeport-addresses there", "--external-ip-cidrs 10.0.0.0/99", "--half-close-timeout 0s: must be above 0",
		"--connect-timeouts 0s", "--proxy-port-range 9-8: must be FIRST-LAST",
		"--iptables-variant ebtables: must be nft or legacy, or be omitted",
		"--log-level loud: must be error, warn, info, debug or trace", "--log-format xml",
		"--healthz-bind-address nowhere: must be ADDRESS:PORT",
		"--metrics-bind-address 0.0.0.0:99999",
		"--admin-socket admin.sock: must be an absolute path", "--udp-max-sessions 0",
		"--drain-timeout -1s: must not be negative",
		"--idle-timeout -1s",
		`--hostname-override " ": must not be blank`, "--node-ip 127.0.0.1: must be an address of this node",
		"--proxy-mode magic",
		"--iptables-sync-period 0s", "--oom-score-adj 1001: must be from -1000 to 1000", "--kube-api-burst -1",
		"--service-proxy-name a/b",
		"--bind-address me", "--cluster-cidr 10.0.0.0/8,10.1.0.0/16", "--detect-local-mode Guess",
		"--retries -1: must be from 0",
		"--client-address mine", "--max-connections -1", "--conntrack-min -1", "--config-sync-period 0s: must be above 0",
		"--iptables-masquerade-bit 32", "--logging-format xml",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing like %q", want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 39 {
		t.Errorf("%d mistakes in\n%v", n, err)
	}
}

func TestContradictions(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	tests := map[string]struct{ file, args, want string }{
		"two sources": {args: "--manifests=x --kubeconfig=k",
			want: "--manifests and --kubeconfig contradict each other"},
		"manifests and a master": {args: "--manifests=x --master=y", want: "--manifests and --master contradict"},
		"source in flag and file": {kubeHead + "clientConnection: {kubeconfig: k}", "--manifests=x",
			"--manifests and FILE: document 1 (KubeProxyConfiguration): clientConnection.kubeconfig contradict"},
		"sources in one file": {portaldHead + "manifests: [x]\n---\n" + kubeHead + "clientConnection: " +
			"{kubeconfig: k}", "", "FILE: document 1 (PortaldConfiguration): manifests and document 2 " +
			"(KubeProxyConfiguration): clientConnection.kubeconfig contradict"},
		"times by flags": {args: "--iptables-sync-period=1s --iptables-min-sync-period=2s",
			want: "--iptables-min-sync-period 2s: must not be more than --iptables-sync-period, which is 1s"},
		"times in the file": {kubeHead + "mode: ipvs\nipvs: {minSyncPeriod: 31s}", "",
			"ipvs.minSyncPeriod 31s: must not be more than ipvs.syncPeriod, which is 30s"},
		"a bridge without name": {args: "--detect-local-mode=BridgeInterface",
			want: "--detect-local-mode BridgeInterface: needs --pod-bridge-interface"},
		"a prefix without name": {kubeHead + "detectLocalMode: InterfaceNamePrefix", "",
			"detectLocalMode InterfaceNamePrefix: needs detectLocal.interfaceNamePrefix"},
		"two port ranges": {kubeHead + "portRange: 1000-2000", "--proxy-port-range=3000-4000",
			"--proxy-port-range 3000-4000: contradicts FILE: document 1 (KubeProxyConfiguration): portRange, which is " +
				"1000-2000"},
		"one address twice": {args: "--healthz-bind-address=0.0.0.0:1 --metrics-bind-address=0.0.0.0:1",
			want: "--healthz-bind-address and --metrics-bind-address are both 0.0.0.0:1"},
		"a page of what is not shown": {args: "--ui", want: "--ui needs --read-only-api, which is off"},
		"a page without a server": {portaldHead + "ui: true\nreadOnlyAPI: true", "--metrics-bind-address=",
			"ui needs --metrics-bind-address, which is none"},
		"too many dials": {args: "--connect-timeouts=" + strings.Repeat("1s,", 16) + "1s",
			want: "--connect-timeouts 1s,1s"},
		"two node IPs": {args: "--node-ip=192.0.2.1,192.0.2.2",
			want: "--node-ip 192.0.2.2: must be one of each family; 192.0.2.1 is of the same"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(test.args)
			path := inFile(t, test.file)
			if test.file != "" {
				args = append(args, "--config", path)
			}
			_, _, err := complete(t, args...)
			if want := strings.ReplaceAll(test.want, "FILE", path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("said %v\nwant %s", err, want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	_, _, err := complete(t, "--config=/nowhere/config.yaml")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/nowhere/config.yaml: ") {
		t.Error(err)
	}
}

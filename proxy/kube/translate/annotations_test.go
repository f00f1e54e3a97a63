package translate

import (
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
)

func TestAnnotations(t *testing.T) {
	ms := func(of ...int) (out []time.Duration) {
		for _, n := range of {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	for _, c := range []struct {
		annotations string // "name value", a line each; bare names are ours
		want        service.Policy
		problem     string // part of the only one
	}{
		{"example.com/retries x\nportald.io.example/retries x", service.Policy{}, ""},
		{"connect-timeouts 250ms, 1s", service.Policy{ConnectTimeouts: ms(250, 1000)}, ""},
		{"retries 1", service.Policy{Dials: 2}, ""},
		{"retries 0", service.Policy{Dials: 1}, ""},
		{"retries 15", service.Policy{Dials: 16}, ""},
		{"retries 2\nconnect-timeouts 100ms,200ms", service.Policy{ConnectTimeouts: ms(100, 200), Dials: 3}, ""},
		{"retries 2\nconnect-timeouts soon", service.Policy{Dials: 3},
			`"soon": must be 1 to 16 durations above 0`},
		{"idle-timeout 5m\nhalf-close-timeout 30s\nudp-timeout 10s", service.Policy{Idle: 5 * time.Minute,
			HalfClose: 30 * time.Second, UDPIdle: 10 * time.Second}, ""},
		{"idle-timeout 0\nhalf-close-timeout 0s", service.Policy{Idle: service.Never, HalfClose: service.Never}, ""},
		{"max-connections 500", service.Policy{MaxConnections: 500}, ""},
		{"max-connections 0", service.Policy{MaxConnections: -1}, ""},
		{"max-connections-per-client 20\nconnection-rate 1000\nconnection-rate-per-client 1000000",
			service.Policy{Shares: service.Shares{MaxConnectionsPerClient: 20, ConnectionRate: 1000,
				ConnectionRatePerClient: 1_000_000}}, ""},
		{"max-connections-per-client 0\nconnection-rate 0\nconnection-rate-per-client 0", service.Policy{
			Shares: service.Shares{MaxConnectionsPerClient: -1, ConnectionRate: -1, ConnectionRatePerClient: -1}}, ""},
		{"connection-rate 1000001", service.Policy{}, `"1000001": must be a number from 0 to 1000000; the daemon's`},
		{"connection-rate 10/s", service.Policy{}, `"10/s": must be a number from 0 to 1000000`},
		{"connection-rate-per-client -1", service.Policy{}, `"-1": must be a number from 0`},
		{"max-connections-per-client 1.5", service.Policy{}, `"1.5": must be a number, 0 for no limit`},
		{"client-address transparent", service.Policy{ClientAddress: service.AddressTransparent}, ""},
		{"client-address node", service.Policy{ClientAddress: service.AddressNode}, ""},
		{"client-address proxy-v2", service.Policy{ClientAddress: service.AddressProxyV2}, ""},
		{"retry-on connect, reset-before-response",
			service.Policy{RetryOn: service.RetryConnect | service.RetryReset}, ""},
		{"retry-on reset", service.Policy{}, `annotations[portald.io/retry-on]: "reset": must be one or more of connect ` +
			"and reset-before-response, separated by commas; the daemon's setting is used"},
		{"eject-on connect, closed-early", service.Policy{EjectOn: service.EjectConnect | service.EjectClosedEarly}, ""},
		{"eject-on closed_early", service.Policy{}, `annotations[portald.io/eject-on]: "closed_early": must be one or more ` +
			"of connect, reset-before-response and closed-early, separated by commas (did you mean closed-early?); the " +
			"daemon's setting is used"},

		{"algorithm round-robin", service.Policy{Algorithm: service.RoundRobin}, ""},
		{"algorithm least-connections", service.Policy{Algorithm: service.LeastConnections}, ""},
		{"algorithm source-hash\nslow-start 30s",
			service.Policy{Algorithm: service.SourceHash, SlowStart: 30 * time.Second}, ""},
		{"algorithm random\nslow-start 0", service.Policy{Algorithm: service.Random, SlowStart: service.Never}, ""},
		{"algorithm maglev", service.Policy{},
			`"maglev": must be round-robin, least-connections, source-hash or random; the daemon's setting is used`},
		{"slow-start soon", service.Policy{}, `"soon": must be a time above 0 and up to 1000h`},

		{"connection-log failures", service.Policy{Logging: service.Logging{Records: service.RecordsFailures}}, ""},
		{"connection-log all\nconnection-log-sample 1/100",
			service.Policy{Logging: service.Logging{Records: service.RecordsAll, Sample: 100}}, ""},
		{"connection-log-sample 1/1", service.Policy{Logging: service.Logging{Sample: 1}}, ""},
		{"connection-log errors", service.Policy{}, `"errors": must be all, failures or off; the daemon's setting is used`},
		{"connection-log-sample 1%", service.Policy{},
			`"1%": must be 1/NUMBER with a number from 1 to 1000000, such as 1/100; the daemon's setting is used`},
		{"connection-log-sample 1/0", service.Policy{}, `"1/0": must be 1/NUMBER`},
		{"connection-log-sample 1/1000001", service.Policy{}, "must be 1/NUMBER"},
		{"connection-log-sample 2/3", service.Policy{}, "must be 1/NUMBER"},

		{"connect-timeouts 1s,0s", service.Policy{},
			`annotations[portald.io/connect-timeouts]: "1s,0s": must be 1 to 16 durations above 0, separated by commas, such as 250ms,1s; the daemon's setting is used`},
		{"connect-timeouts ", service.Policy{}, `annotations[portald.io/connect-timeouts]: "": must be 1 to 16 durations`},
		{"connect-timeouts " + strings.Repeat("1s,", 16) + "1s", service.Policy{}, `1 to 16 durations`},
		{"retries -1", service.Policy{}, `annotations[portald.io/retries]: "-1": must be a number from 0 to 15; the daemon's setting is used`},
		{"retries 16", service.Policy{}, "must be a number from 0 to 15"},
		{"idle-timeout 90", service.Policy{}, `"90": must be a time above 0 and up to 1000h, such as 90s or 5m, or 0 for never; the daemon's`},
		{"idle-timeout -1s", service.Policy{}, "must be a time above 0"},
		{"half-close-timeout 1001h", service.Policy{}, "must be a time above 0 and up to 1000h"},
		{"udp-timeout 0", service.Policy{}, `annotations[portald.io/udp-timeout]: "0": must be a time above 0`},
		{"max-connections many", service.Policy{}, `"many": must be a number, 0 for no limit`},
		{"max-connections 99999999999999999999", service.Policy{}, "must be a number"},
		{"client-address proxy", service.Policy{},
			`"proxy": must be node, transparent or proxy-v2; the daemon's setting is used`},
		{"client-address ", service.Policy{}, `"": must be node`},
		{"idle-time 5m", service.Policy{}, `metadata.annotations[portald.io/idle-time]: "5m": is unknown and has no effect; ` +
			"did you mean portald.io/idle-timeout?"},
		{"keepalive 5m", service.Policy{}, `"5m": is unknown and has no effect; known are ` +
			strings.Join(service.SettingNames(), ", ")},
		{"mode usersapce", service.Policy{},
			`"usersapce": must be userspace or kernel (did you mean userspace?); the daemon's setting is used`},
		{"mode ipvs\nretries 0", service.Policy{Dials: 1},
			`metadata.annotations[portald.io/mode]: "ipvs": must be userspace or kernel; the daemon's setting is used`},
		{"mode ", service.Policy{}, `metadata.annotations[portald.io/mode]: "": must be`},
		{"x " + strings.Repeat("é", 5000), service.Policy{}, `é…": is unknown`},
	} {
		t.Run(c.annotations[:min(40, len(c.annotations))], func(t *testing.T) {
			annotations := map[string]string{}
			for line := range strings.SplitSeq(c.annotations, "\n") {
				name, value, _ := strings.Cut(line, " ")
				if !strings.Contains(name, "/") {
					name = "portald.io/" + name
				}
				annotations[name] = value
			}
			var r report
			var got service.Port
			readAnnotations(annotations, &got, Options{}, r.on(Key{KindService, "shop", "cart"}))
			if !got.Policy.Equal(c.want) || got.Mode != service.ModeDefault {
				t.Errorf("got %+v\nwant %+v", got.Policy, c.want)
			}
			var want []string
			if c.problem != "" {
				want = []string{c.problem}
			}
			wantProblems(t, want, r.problems)
			for _, p := range r.problems {
				if len(p.Error()) > 1000 {
					t.Errorf("%d bytes of problem", len(p.Error()))
				}
			}
		})
	}
}

// How a Service is carried is said once for all its ports, and where it is not, by the daemon.
func TestModeOfService(t *testing.T) {
	for _, c := range []struct {
		annotation string
		want       service.Mode
		problem    string
	}{
		{"", service.ModeDefault, ""},
		{"portald.io/mode: kernel", service.ModeKernel, ""},
		{"portald.io/mode: ' userspace '", service.ModeUserspace, ""},
		{"portald.io/mode: Kernel", service.ModeDefault,
			`service shop/cart: metadata.annotations[portald.io/mode]: "Kernel": must be userspace or kernel`},
	} {
		svc, _ := objecttest.Objects(t, strings.Replace(objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: a, "+
			"port: 53}, {name: b, port: 54}]}"),
			"namespace: shop", "namespace: shop, annotations: {"+c.annotation+"}", 1))
		ports, problems := ports(svc, nil, Options{})
		var want []string
		if c.problem != "" {
			want = []string{c.problem}
		}
		wantProblems(t, want, problems)
		if len(ports) != 2 || ports[0].Mode != c.want || ports[1].Mode != c.want {
			t.Errorf("%q: %v", c.annotation, ports)
		}
	}
}

// A setting that the operator does not allow has the daemon's value, and is reported.
func TestRefusedAnnotations(t *testing.T) {
	for _, c := range []struct {
		refused []string
		want    service.Policy
		refuses string
	}{
		{nil, service.Policy{Dials: 1, KernelRecords: service.RecordsAll}, ""},
		{[]string{"mode", "kernel-records"}, service.Policy{Dials: 1}, "kernel-records"},
		{[]string{service.AllSettings}, service.Policy{}, "kernel-records retries"},
	} {
		var r report
		var got service.Port
		readAnnotations(map[string]string{"portald.io/retries": "0", "portald.io/kernel-records": "all"}, &got,
			Options{RefusedAnnotations: c.refused}, r.on(Key{KindService, "shop", "cart"}))
		if !got.Policy.Equal(c.want) {
			t.Errorf("%v: got %+v\nwant %+v", c.refused, got.Policy, c.want)
		}
		var want []string
		for name := range strings.FieldsSeq(c.refuses) {
			want = append(want, "metadata.annotations[portald.io/"+name+"]: ")
		}
		wantProblems(t, want, r.problems)
		for _, p := range r.problems {
			if !strings.Contains(p.Error(), "is refused on this node (refusedAnnotations); the daemon's setting is used") {
				t.Error(p)
			}
		}
	}
}

// A setting that needs rules of the kernel is reported where there are none, and replaced.
func TestAnnotationsWithoutRules(t *testing.T) {
	got, problems := translated(t, strings.Replace(
		objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}"),
		"namespace: shop", "namespace: shop, annotations: {portald.io/client-address: transparent, "+
			"portald.io/mode: kernel, portald.io/retries: '0'}", 1), Options{NoRules: true})
	const field = "service shop/cart: metadata.annotations[portald.io/"
	wantProblems(t, []string{
		field + `mode]: "kernel": is not possible on this node, which does not run Linux: the Service is served in mode`,
		field + `client-address]: "transparent": is not possible on this node`,
	}, problems)
	if !strings.Contains(got, "ClientAddress:node ") || !strings.Contains(got, "mode userspace") ||
		!strings.Contains(got, "Dials:1") {
		t.Error(got)
	}
}

// Listeners do not carry SCTP: each port of that protocol is reported in mode userspace, with what to do, and the
// others are served. The kernel carries it.
func TestSCTP(t *testing.T) {
	const field = `service shop/cart: spec.ports[1].protocol: "SCTP": `
	refused := field + "is not carried in mode userspace, clients of this port are refused; annotate the Service with " +
		"portald.io/mode: kernel, or set the daemon's mode to iptables, nftables or ipvs"
	kernel, userspace := Options{Mode: service.ModeKernel}, Options{Mode: service.ModeUserspace}
	for _, c := range []struct {
		name, annotations string
		opts              Options
		want              []string
		has               bool
	}{
		{"by the daemon's mode", "", kernel, nil, true},
		{"by annotation", "portald.io/mode: kernel", userspace, nil, true},
		{"not by the daemon's mode", "", userspace, []string{refused}, true},
		{"not by annotation", "portald.io/mode: userspace", kernel, []string{refused}, true},
		{"annotation refused", "", Options{RefusedAnnotations: []string{"mode"}}, []string{field + "is not carried in " +
			"mode userspace, clients of this port are refused; set the daemon's mode to iptables, nftables or ipvs: this " +
			"node"}, true},
		{"not Linux", "", Options{NoRules: true, Mode: service.ModeUserspace}, []string{field + "takes the kernel of " +
			"Linux, this port is not served on this node; write TCP or UDP"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problems := translated(t, strings.Replace(objecttest.Service("spec: {clusterIP: 10.96.0.7, "+
				"ports: [{name: http, port: 80}, {name: sig, port: 80, protocol: SCTP}]}"),
				"namespace: shop", "namespace: shop, annotations: {"+c.annotations+"}", 1), c.opts)
			wantProblems(t, c.want, problems)
			if !strings.Contains(got, "shop/cart:http/tcp") || strings.Contains(got, "shop/cart:sig/sctp") != c.has {
				t.Error(got)
			}
		})
	}
}

// A setting that the kernel cannot apply to a Service that it carries is reported, with what it can do, and the
// daemon's is used. A Service that the daemon carries has it.
func TestAlgorithmsInKernelMode(t *testing.T) {
	some := func(a service.Algorithm) bool { return a == service.RoundRobin || a == service.Random }
	const field = "service shop/cart: metadata.annotations[portald.io/"
	lacks := []string{
		field + `algorithm]: "source-hash": is not possible by the kernel with this node's writer; the daemon's setting is ` +
			`used; write round-robin or random or portald.io/mode: userspace`,
		field + `slow-start]: "30s": has no effect where the kernel carries the Service: new endpoints get connections at once; ` +
			`remove it, or write portald.io/mode: userspace`,
	}
	for _, c := range []struct {
		name, annotations string
		opts              Options
		want              []string
		has               string
	}{
		{"by its own mode", "portald.io/mode: kernel, portald.io/algorithm: source-hash, portald.io/slow-start: 30s",
			Options{KernelAlgorithm: some}, lacks, ""},
		{"by the daemon's", "portald.io/algorithm: source-hash, portald.io/slow-start: 30s",
			Options{KernelAlgorithm: some, Mode: service.ModeKernel}, lacks, ""},
		{"in userspace", "portald.io/mode: userspace, portald.io/algorithm: source-hash, portald.io/slow-start: 30s",
			Options{KernelAlgorithm: some, Mode: service.ModeKernel}, nil, "Algorithm:source-hash SlowStart:30s "},
		{"what it has", "portald.io/mode: kernel, portald.io/algorithm: random, portald.io/slow-start: '0'",
			Options{KernelAlgorithm: some}, nil, "Algorithm:random SlowStart:-1ns "},
		{"nothing asked", "portald.io/mode: kernel", Options{KernelAlgorithm: some}, nil, ""},
		{"no writer known", "portald.io/mode: kernel, portald.io/algorithm: least-connections", Options{}, nil,
			"Algorithm:least-connections "},
		{"not Linux", "portald.io/mode: kernel, portald.io/algorithm: source-hash",
			Options{KernelAlgorithm: some, NoRules: true}, []string{field + `mode]: "kernel": is not`}, "Algorithm:source-hash "},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain := objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}")
			got, problems := translated(t, strings.Replace(plain, "namespace: shop",
				"namespace: shop, annotations: {"+c.annotations+"}", 1), c.opts)
			wantProblems(t, c.want, problems)
			if !strings.Contains(got, c.has) || c.has == "" && strings.Contains(got, "Algorithm:source") {
				t.Errorf("%s, want %q", got, c.has)
			}
		})
	}
}

// A header that tells TCP endpoints of their clients is not sent to UDP endpoints, and the rest of the Service is
// served.
func TestProxyHeaderIsForTCP(t *testing.T) {
	got, problems := translated(t, strings.Replace(objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: "+
		"dns, port: 53, protocol: UDP}, {name: tcp, port: 53}]}"),
		"namespace: shop", "namespace: shop, annotations: {portald.io/client-address: proxy-v2, "+
			"portald.io/udp-timeout: 5s}", 1), Options{})
	wantProblems(t, []string{`service shop/cart: metadata.annotations[portald.io/client-address]: "proxy-v2": is for TCP alone, node is used for UDP port "dns"`}, problems)
	if !strings.Contains(got, "UDPIdle:5s MaxConnections:0 ClientAddress:node ") ||
		!strings.Contains(got, "ClientAddress:proxy-v2 ") {
		t.Error(got)
	}
}

// Whatever an annotation says, a policy comes out that can be kept to.
func FuzzAnnotations(f *testing.F) {
	f.Add("250ms,1s", "2", "0", "500", "node")
	f.Add(",", "-0", "1e9h", "+1", "")
	f.Fuzz(func(t *testing.T, timeouts, retries, timeout, number, address string) {
		var r report
		var port service.Port
		readAnnotations(map[string]string{
			"portald.io/connect-timeouts": timeouts, "portald.io/retries": retries, "portald.io/idle-timeout": timeout,
			"portald.io/half-close-timeout": timeout, "portald.io/udp-timeout": timeout, "portald.io/max-connections": number,
			"portald.io/max-connections-per-client": number, "portald.io/connection-rate": number,
			"portald.io/connection-rate-per-client": number,
			"portald.io/client-address":             address, "portald.io/" + address: timeouts, "portald.io/mode": address,
		}, &port, Options{}, r.on(Key{KindService, "shop", "cart"}))
		p := port.Policy.Or(service.DefaultPolicy())
		for _, d := range p.ConnectTimeouts {
			if d <= 0 || d > 1000*time.Hour || len(p.ConnectTimeouts) > 16 {
				t.Errorf("dials: %v", p.ConnectTimeouts)
			}
		}
		if p.Idle < service.Never || p.HalfClose < service.Never || p.UDPIdle <= 0 || p.MaxConnections < -1 ||
			p.MaxConnections == 0 {
			t.Errorf("%+v", p)
		}
		for _, n := range []int{p.Shares.MaxConnectionsPerClient, p.Shares.ConnectionRate, p.Shares.ConnectionRatePerClient} {
			if n < -1 || n == 0 {
				t.Errorf("%+v", p.Shares)
			}
		}
	})
}

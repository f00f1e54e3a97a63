package translate

import (
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/proxy/kube/fixture"
	"github.com/portald/portald/proxy/service"
)

func TestAnnotations(t *testing.T) {
	daemons := []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second}
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
		{"retries 1", service.Policy{ConnectTimeouts: ms(250, 500)}, ""},
		{"retries 0", service.Policy{ConnectTimeouts: ms(250)}, ""},
		{"retries 4", service.Policy{ConnectTimeouts: ms(250, 500, 1000, 1000, 1000)}, ""},
		{"retries 2\nconnect-timeouts 100ms,200ms", service.Policy{ConnectTimeouts: ms(100, 200, 200)}, ""},
		{"retries 0\nconnect-timeouts 100ms,200ms", service.Policy{ConnectTimeouts: ms(100)}, ""},
		{"retries 2\nconnect-timeouts soon", service.Policy{ConnectTimeouts: ms(250, 500, 1000)}, `"soon": is no list of 1 to 16 times above 0`},
		{"idle-timeout 5m\nhalf-close-timeout 30s\nudp-timeout 10s", service.Policy{Idle: 5 * time.Minute, HalfClose: 30 * time.Second, UDPIdle: 10 * time.Second}, ""},
		{"idle-timeout 0\nhalf-close-timeout 0s", service.Policy{Idle: service.Never, HalfClose: service.Never}, ""},
		{"max-connections 500", service.Policy{MaxConnections: 500}, ""},
		{"max-connections 0", service.Policy{MaxConnections: -1}, ""},
		{"client-address transparent", service.Policy{ClientAddress: service.AddressTransparent}, ""},
		{"client-address node", service.Policy{ClientAddress: service.AddressNode}, ""},
		{"client-address proxy-v2", service.Policy{ClientAddress: service.AddressProxyV2}, ""},

		{"connect-timeouts 1s,0s", service.Policy{}, `annotations[portald.io/connect-timeouts]: "1s,0s": is no list`},
		{"connect-timeouts ", service.Policy{}, `annotations[portald.io/connect-timeouts]: "": is no list`},
		{"connect-timeouts " + strings.Repeat("1s,", 16) + "1s", service.Policy{}, `1 to 16 times`},
		{"retries -1", service.Policy{}, `annotations[portald.io/retries]: "-1": is no number from 0 to 15, the daemon's setting is used; write how many retries`},
		{"retries 16", service.Policy{}, "is no number from 0 to 15"},
		{"idle-timeout 90", service.Policy{}, `"90": is no time above 0 and up to 1000h, the daemon's setting is used; write one such as 90s or 5m, or 0 for never`},
		{"idle-timeout -1s", service.Policy{}, "is no time above 0"},
		{"half-close-timeout 1001h", service.Policy{}, "is no time above 0 and up to 1000h"},
		{"udp-timeout 0", service.Policy{}, `annotations[portald.io/udp-timeout]: "0": is no time above 0`},
		{"max-connections many", service.Policy{}, `"many": is no number`},
		{"max-connections 99999999999999999999", service.Policy{}, "is no number"},
		{"client-address proxy", service.Policy{}, `"proxy": is no way to tell the client's address, the daemon's setting is used; write node, transparent or proxy-v2`},
		{"client-address ", service.Policy{}, `is no way to tell`},
		{"idle-time 5m", service.Policy{}, `metadata.annotations[portald.io/idle-time]: "5m": is no setting and has no effect; known are client-address, connect-timeouts, half-close-timeout, idle-timeout, max-connections, mode, retries, udp-timeout`},
		{"mode ipvs\nretries 0", service.Policy{ConnectTimeouts: ms(250)}, `metadata.annotations[portald.io/mode]: "ipvs": is no mode of a Service, the daemon's is used; write userspace or kernel`},
		{"mode ", service.Policy{}, `metadata.annotations[portald.io/mode]: "": is no mode`},
		{"x " + strings.Repeat("é", 5000), service.Policy{}, `é…": is no setting`},
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
			got := annotationsOf(annotations, Options{ConnectTimeouts: daemons}, r.on(Key{KindService, "shop", "cart"}))
			if !got.policy.Equal(c.want) || got.mode != service.ModeDefault {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
			var want []string
			if c.problem != "" {
				want = []string{c.problem}
			}
			wantProblems(t, want, r.problems)
			for _, p := range r.problems {
				if len(p.Error()) > 500 {
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
		{"portald.io/mode: Kernel", service.ModeDefault, `service shop/cart: metadata.annotations[portald.io/mode]: "Kernel": is no mode of a Service`},
	} {
		svc, _ := fixture.Objects(t, strings.Replace(fixture.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: a, port: 53}, {name: b, port: 54}]}"),
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

// What a header would tell of TCP clients, a UDP endpoint is not told, and the rest of the Service goes on.
func TestProxyHeaderIsForTCP(t *testing.T) {
	got, problems := translated(t, strings.Replace(fixture.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: dns, port: 53, protocol: UDP}, {name: tcp, port: 53}]}"),
		"namespace: shop", "namespace: shop, annotations: {portald.io/client-address: proxy-v2, portald.io/udp-timeout: 5s}", 1), Options{})
	wantProblems(t, []string{`service shop/cart: metadata.annotations[portald.io/client-address]: "proxy-v2": cannot be done for UDP, node is used for port "dns"`}, problems)
	if !strings.Contains(got, "UDPIdle:5s MaxConnections:0 ClientAddress:node}") || !strings.Contains(got, "ClientAddress:proxy-v2}") {
		t.Error(got)
	}
}

// Whatever an annotation says, a policy comes out that can be kept to.
func FuzzAnnotations(f *testing.F) {
	f.Add("250ms,1s", "2", "0", "500", "node")
	f.Add(",", "-0", "1e9h", "+1", "")
	f.Fuzz(func(t *testing.T, timeouts, retries, timeout, number, address string) {
		var r report
		a := annotationsOf(map[string]string{
			"portald.io/connect-timeouts": timeouts, "portald.io/retries": retries, "portald.io/idle-timeout": timeout,
			"portald.io/half-close-timeout": timeout, "portald.io/udp-timeout": timeout, "portald.io/max-connections": number,
			"portald.io/client-address": address, "portald.io/" + address: timeouts, "portald.io/mode": address,
		}, Options{}, r.on(Key{KindService, "shop", "cart"}))
		p := a.policy
		for _, d := range p.ConnectTimeouts {
			if d <= 0 || d > maxTimeout || len(p.ConnectTimeouts) > maxDials {
				t.Errorf("dials: %v", p.ConnectTimeouts)
			}
		}
		if p.Idle < service.Never || p.HalfClose < service.Never || p.UDPIdle < 0 || p.MaxConnections < -1 {
			t.Errorf("%+v", p)
		}
	})
}

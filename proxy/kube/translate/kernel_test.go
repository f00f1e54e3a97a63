package translate

import (
	"io"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
)

// annotated is a Service with a port of each protocol, and with annotations.
func annotated(annotations string) string {
	return strings.Replace(objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{name: http, port: 80}, {name: dns, "+
		"port: 53, protocol: UDP}]}"), "namespace: shop", "namespace: shop, annotations: {"+annotations+"}", 1)
}

// An annotation that asks for what the kernel does not do is reported where the kernel carries the Service, the PROXY
// header first; one that is wrong, refused or asks for what the kernel does is not, and none is in userspace.
func TestAnnotationsWithoutEffect(t *testing.T) {
	const field = "service shop/cart: metadata.annotations[portald.io/"
	const none = "has no effect where the kernel carries the Service: "
	const remedy = "; remove it, or write portald.io/mode: userspace"
	for _, c := range []struct {
		name, annotations string
		opts              Options
		want              []string
	}{
		{"what the kernel lacks", "portald.io/mode: kernel, portald.io/retries: '2', portald.io/client-address: proxy-v2, " +
			"portald.io/kernel-records: all", Options{}, []string{
			field + `client-address]: "proxy-v2": ` + none + "endpoints get no PROXY protocol header, and those that expect " +
				"one do not understand their clients" + remedy,
			field + `retries]: "2": ` + none + "a connection has one endpoint, and no other is tried" + remedy,
		}},
		{"by the daemon's mode", "portald.io/client-address: transparent", Options{Mode: service.ModeKernel}, []string{
			field + `client-address]: "transparent": ` + none + "endpoints see the client's address, or"}},
		{"no other mode is allowed", "portald.io/max-age: 10m", Options{Mode: service.ModeKernel,
			RefusedAnnotations: []string{"mode"}}, []string{
			field + `max-age]: "10m": ` + none + "connections get as old as they get; remove it"}},
		{"what the kernel does", "portald.io/mode: kernel, portald.io/retries: '0', portald.io/max-connections: '0', " +
			"portald.io/removed-endpoint: keep, portald.io/connection-log: 'off'", Options{}, nil},
		{"refused", "portald.io/mode: kernel, portald.io/retries: '2'", Options{RefusedAnnotations: []string{"retries"}},
			[]string{field + `retries]: "2": is refused on this node`}},
		{"wrong", "portald.io/mode: kernel, portald.io/retries: many", Options{},
			[]string{field + `retries]: "many": must be a number`}},
		{"in userspace", "portald.io/retries: '2', portald.io/kernel-records: all", Options{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := translated(t, annotated(c.annotations), c.opts)
			wantProblems(t, c.want, problems)
		})
	}
}

// A change of the mode tells once what it ends, also the second of its kind, and nothing is told while nothing changes.
func TestEachFlipTellsWhatItEnds(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	c := NewCache(service.NewStore(), Options{}, log)
	var told []string
	c.Report = func(_ service.Name, p Problem) { told = append(told, p.Value) }
	set := func(mode, more string) {
		svc, _ := objecttest.Objects(t, annotated("portald.io/mode: "+mode+", portald.io/client-address: proxy-v2"+more))
		c.Set(svc)
	}
	for _, step := range []struct {
		mode, more string
		want       int
	}{
		{"userspace", "", 1}, // of the UDP port
		{"kernel", "", 2}, {"kernel", "", 2}, {"kernel", ", portald.io/max-age: 1h", 3},
		{"userspace", ", portald.io/max-age: 1h", 4}, {"kernel", ", portald.io/max-age: 1h", 6},
	} {
		if set(step.mode, step.more); len(told) != step.want {
			t.Fatalf("%+v: told %q", step, told)
		}
	}
}

// The daemon's PROXY header ends where the kernel carries a TCP port: that is told once, when the Service or the
// daemon's setting changes, and no longer stands when either changes back. A Service with an address of its own does
// not have it.
func TestHeaderOfTheDaemon(t *testing.T) {
	const told = `service shop/cart: metadata.annotations[portald.io/client-address]: the daemon's proxy-v2: has no effect ` +
		"where the kernel carries the Service: endpoints get no PROXY protocol header, and those that expect one do not " +
		"understand their clients; "
	const inKernel = "portald.io/mode: kernel"
	for _, c := range []struct {
		name, annotations string
		opts              Options
		want              string // of the remedy; empty: nothing is told
	}{
		{"by annotation", inKernel, Options{}, "write portald.io/mode: userspace"},
		{"by the daemon's mode", "", Options{Mode: service.ModeKernel}, "write portald.io/mode: userspace"},
		{"no other mode is allowed", "", Options{Mode: service.ModeKernel, RefusedAnnotations: []string{"mode"}},
			"set clientAddress or the mode of the daemon otherwise"},
		{"the Service's address is refused", inKernel + ", portald.io/client-address: node",
			Options{RefusedAnnotations: []string{"client-address"}}, "write portald.io/mode: userspace"},
		{"the Service has another address", inKernel + ", portald.io/client-address: node", Options{}, ""},
		{"in userspace", "portald.io/mode: userspace", Options{Mode: service.ModeKernel}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := logrus.New()
			log.SetOutput(io.Discard)
			cache := NewCache(service.NewStore(), c.opts, log)
			var got []string
			cache.Report = func(_ service.Name, p Problem) {
				if strings.Contains(p.Value, "daemon's") {
					got = append(got, p.Error())
				}
			}
			set := func(annotations string) {
				svc, _ := objecttest.Objects(t, annotated(annotations))
				cache.Set(svc)
			}
			stands := func() (n int) {
				cache.EachProblem(func(_ service.Name, p Problem) {
					if strings.Contains(p.Value, "daemon's") {
						n++
					}
				})
				return n
			}
			set(c.annotations)
			cache.SetClientAddress(service.AddressTransparent)
			if len(got)+stands() > 0 {
				t.Fatalf("told without the setting: %q", got)
			}
			cache.SetClientAddress(service.AddressProxyV2)
			set(c.annotations) // nothing changes
			cache.SetClientAddress(service.AddressProxyV2)
			if c.want == "" {
				if len(got)+stands() > 0 {
					t.Errorf("told %q", got)
				}
				return
			}
			if len(got) != 1 || got[0] != told+c.want || stands() != 1 {
				t.Fatalf("told %q, %d stand, want once %q", got, stands(), told+c.want)
			}
			cache.SetClientAddress(service.AddressNode)
			if stands() != 0 {
				t.Error("it stands without the setting")
			}
			cache.SetClientAddress(service.AddressProxyV2)
			left := 0
			if c.opts.refuses("mode") {
				left = 1
			}
			if set("portald.io/mode: userspace"); len(got) != 2 || stands() != left {
				t.Errorf("told %q, %d stand in userspace", got, stands())
			}
		})
	}
}

// A Service without a TCP port has no header anyway.
func TestHeaderOfUDP(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	cache := NewCache(service.NewStore(), Options{Mode: service.ModeKernel, ClientAddress: service.AddressProxyV2}, log)
	svc, _ := objecttest.Objects(t, objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 53, protocol: UDP}]}"))
	cache.Set(svc)
	cache.EachProblem(func(_ service.Name, p Problem) { t.Error(p) })
}

// All settings of a Service are kept, and annotations nobody reads do not add up.
func TestOwnAnnotationsAreBounded(t *testing.T) {
	all := map[string]string{"example.com/x": "y"}
	for _, name := range service.SettingNames() {
		all[annotationPrefix+name] = "x"
	}
	if own := ownAnnotations(all); len(own) != len(service.SettingNames()) {
		t.Errorf("%d of %d are kept", len(own), len(service.SettingNames()))
	}
	for i := range 1000 {
		all[annotationPrefix+"z"+strings.Repeat("z", i)] = "x"
	}
	if own := ownAnnotations(all); len(own) != mostAnnotations {
		t.Errorf("%d are kept", len(own))
	}
}

package translate

import (
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// inKernel reports what annotations ask for and the kernel does not do, and replaces what it cannot choose by.
func inKernel(annotations map[string]string, port *service.Port, opts Options, on objectReport) {
	offers := opts.KernelAlgorithm
	if a := port.Policy.Algorithm; a != service.AlgorithmDefault && offers != nil && !offers(a) {
		on.add(annotationField("algorithm"), a.String(), "is not possible by the kernel with this node's writer; the "+
			"daemon's setting is used; write "+alternatives(offers))
		port.Policy.Algorithm = service.AlgorithmDefault
	}
	remedy := "; remove it, or write " + toUserspace
	if opts.refuses("mode") {
		remedy = "; remove it"
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, ours := strings.CutPrefix(key, annotationPrefix)
		s, known := service.SettingOf(name)
		value := strings.TrimSpace(annotations[key])
		if !ours || !known || opts.refuses(name) || !s.Value.Read(value, &service.Port{}) ||
			!s.Missed(service.ModeKernel, value) {
			continue // it counts, or is reported already
		}
		instead := s.InKernel
		if name == "client-address" && value == service.AddressProxyV2.String() {
			instead = noHeader
		}
		on.add(annotationField(name), annotations[key], noEffect+instead+remedy)
	}
}

// lacksHeader tells whether the kernel carries connections that have the daemon's setting of clientAddress elsewhere.
func lacksHeader(mode service.Mode, ports []*service.Port) bool {
	return mode == service.ModeKernel && slices.ContainsFunc(ports, func(p *service.Port) bool {
		return p.Name.Protocol == inet.TCP && p.Policy.ClientAddress == service.AddressDefault
	})
}

// withoutHeader is the problem of a Service that lacks the PROXY protocol header of the daemon's setting.
func withoutHeader(object Key, opts Options) Problem {
	remedy := "; write " + toUserspace
	if opts.refuses("mode") {
		remedy = "; set clientAddress or the mode of the daemon otherwise"
	}
	return Problem{object.String(), annotationField("client-address"), "the daemon's " + service.AddressProxyV2.String(),
		noEffect + noHeader + remedy}
}

const (
	noEffect = "has no effect where the kernel carries the Service: "
	noHeader = "endpoints get no PROXY protocol header, and those that expect one do not understand their clients"

	toUserspace = annotationPrefix + "mode: userspace"
	toKernel    = annotationPrefix + "mode: kernel"
)

// alternatives names the algorithms that the kernel has, to suggest in place of another one.
func alternatives(offers func(service.Algorithm) bool) string {
	var words []string
	for _, a := range slices.DeleteFunc(service.Algorithms(), func(a service.Algorithm) bool { return !offers(a) }) {
		words = append(words, a.String())
	}
	return strings.Join(append(words, toUserspace), " or ")
}

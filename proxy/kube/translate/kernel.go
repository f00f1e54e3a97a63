package translate

import (
	"slices"
	"strings"

	"github.com/portald/portald/portal/service"
)

// inKernel replaces what annotations ask of a balancer, and the kernel cannot do.
func inKernel(port *service.Port, opts Options, on objectReport) {
	offers := opts.KernelAlgorithm
	if a := port.Policy.Algorithm; a != service.AlgorithmDefault && offers != nil && !offers(a) {
		on.add(annotationField("algorithm"), a.String(), "is not possible by the kernel with this node's writer; the "+
			"daemon's setting is used; write "+alternatives(offers))
		port.Policy.Algorithm = service.AlgorithmDefault
	}
	if port.Policy.SlowStart > 0 {
		on.add(annotationField("slow-start"), port.Policy.SlowStart.String(), "is not possible by the kernel, new endpoints "+
			"get connections at once; remove it, or write "+toUserspace)
		port.Policy.SlowStart = 0
	}
}

const (
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

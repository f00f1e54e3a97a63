package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// annotationPrefix begins the names of the annotations of service.Settings.
const annotationPrefix = "portald.io/"

// readAnnotations sets in port what the annotations of a Service say. One that is invalid, or that this node does not
// take from Services, is reported and has no effect.
func readAnnotations(annotations map[string]string, port *service.Port, opts Options, on objectReport) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if name, ours := strings.CutPrefix(key, annotationPrefix); ours {
			if advice := readAnnotation(name, strings.TrimSpace(annotations[key]), port, opts); advice != "" {
				on.add(annotationField(name), annotations[key], advice)
			}
		}
	}
}

// readAnnotation returns why an annotation is refused, empty when it is not.
func readAnnotation(name, value string, port *service.Port, opts Options) (advice string) {
	settings := service.Settings()
	at := slices.IndexFunc(settings, func(s service.Setting) bool { return s.Name == name })
	if at < 0 {
		return "is unknown and has no effect; known are " + strings.Join(service.SettingNames(), ", ")
	}
	if opts.refuses(name) {
		return "is refused on this node (refusedAnnotations); the daemon's setting is used"
	}
	if v := settings[at].Value; !v.Read(value, port) {
		return "must be " + v.Form() + "; the daemon's setting is used"
	}
	return ""
}

// withoutRules replaces what annotations ask for and a host without rules cannot do.
func withoutRules(port *service.Port, on objectReport) {
	const needsLinux = "is not possible on this node, which does not run Linux: "
	if port.Mode == service.ModeKernel {
		on.add(annotationField("mode"), port.Mode.String(), needsLinux+"the Service is served in mode userspace")
		port.Mode = service.ModeUserspace
	}
	if port.Policy.ClientAddress == service.AddressTransparent {
		on.add(annotationField("client-address"), port.Policy.ClientAddress.String(),
			needsLinux+"endpoints see this node's address; write node or proxy-v2")
		port.Policy.ClientAddress = service.AddressNode
	}
}

// annotationField is where an annotation stands in an object.
func annotationField(name string) string {
	return "metadata.annotations[" + annotationPrefix + name + "]"
}

// policyFor is the policy as far as the protocol of a port supports it.
func policyFor(port service.PortName, policy service.Policy, on objectReport) service.Policy {
	if policy.ClientAddress == service.AddressProxyV2 && port.Protocol == inet.UDP {
		on.add(annotationField("client-address"), policy.ClientAddress.String(),
			fmt.Sprintf("is for TCP alone, node is used for UDP port %q; write transparent or node", port.Port))
		policy.ClientAddress = service.AddressNode
	}
	return policy
}

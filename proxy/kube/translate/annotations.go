package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/spelling"
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

// mostAnnotations is how many of a Service are kept: more than there are settings.
const mostAnnotations = 40

// ownAnnotations are those of portald, so many at most, and as long as problems of a Service are.
func ownAnnotations(all map[string]string) (own map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(key, annotationPrefix) && len(own) < mostAnnotations {
			if own == nil {
				own = map[string]string{}
			}
			own[Truncate(key, mostText)] = Truncate(all[key], mostText)
		}
	}
	return own
}

// readAnnotation returns why an annotation is refused, empty when it is not.
func readAnnotation(name, value string, port *service.Port, opts Options) (advice string) {
	setting, known := service.SettingOf(name)
	if !known {
		names := service.SettingNames()
		if meant, ok := spelling.Nearest(name, names); ok {
			return "is unknown and has no effect; did you mean " + annotationPrefix + meant + "?"
		}
		return "is unknown and has no effect; known are " + strings.Join(names, ", ")
	}
	if opts.refuses(name) {
		return "is refused on this node (refusedAnnotations); " + insteadOf(name)
	}
	if v := setting.Value; !v.Read(value, port) {
		return "must be " + v.Form() + didYouMean(value, v) + "; " + insteadOf(name)
	}
	return ""
}

// insteadOf is what a Service has whose annotation has no effect.
func insteadOf(name string) string {
	if name == service.DebugUntil {
		return "the Service keeps its mode"
	}
	return "the daemon's setting is used"
}

// tooFarAhead is the problem of a Service whose debugging was refused.
func tooFarAhead(object Key, annotations map[string]string) Problem {
	value := quoted(annotations[annotationPrefix+service.DebugUntil])
	return Problem{object.String(), annotationField(service.DebugUntil), value, fmt.Sprintf("is more than %.0fh ahead of "+
		"this node's clock; %s; write an earlier time", service.MostDebug.Hours(), insteadOf(service.DebugUntil))}
}

// didYouMean names the allowed words that are nearest to those that are not allowed; empty: there are none.
func didYouMean(written string, v service.Value) string {
	var allowed, meant []string
	switch v := v.(type) {
	case service.Choice:
		allowed = v.Words
	case service.Words:
		allowed = v.Words
	}
	for word := range strings.SplitSeq(written, ",") {
		if word = strings.TrimSpace(word); slices.Contains(allowed, word) {
			continue
		}
		if nearest, ok := spelling.Nearest(word, allowed); ok {
			meant = append(meant, nearest)
		}
	}
	if len(meant) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(meant, ", ") + "?)"
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

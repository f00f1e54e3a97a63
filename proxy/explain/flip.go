package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// FlipNode is a Node, with what decides how the kernel carries its Services.
type FlipNode struct {
	Node
	Masquerade portal.Masquerade
	Pods       portal.LocalDetector         // how rules tell pods from other clients
	Offers     func(service.Algorithm) bool // which algorithms the writer has
	Refused    []string                     // annotations that Services may not set, or service.AllSettings
}

// Flipped is a service port, with what a change of its mode concerns.
type Flipped struct {
	Subject
	Annotations map[string]string // of its Service, those of portald
	Others      []string          // ports of the same Service
	Carried     int               // connections or flows that the kernel carries now
}

// Modes are those that Flip explains.
func Modes() []string { return []string{service.ModeUserspace.String(), service.ModeKernel.String()} }

// Flip reports what clients, endpoints and operators of service ports would notice if their Service had another mode
// now. Without any, it says that nothing of that name is known here.
func Flip(what string, node FlipNode, ports []Flipped, to service.Mode, now time.Time) *Report {
	b := &builder{report: &Report{What: what, As: to.String(), Node: node.Name, Time: now}}
	for i := range ports {
		b.prefix = ""
		if len(ports) > 1 {
			b.prefix = ports[i].Port.Name.String() + ": "
		}
		f := flip{builder: b, Flipped: &ports[i], node: &node, to: to, now: now}
		f.from, _ = modeOf(f.Port, &node.Node)
		f.asked = f.askedFor()
		f.report()
	}
	b.conclude(len(ports))
	return b.report
}

// flip is one service port on its way into the report.
type flip struct {
	*builder
	*Flipped
	node     *FlipNode
	from, to service.Mode
	asked    service.Policy // by annotations, whatever the present mode makes of them
	now      time.Time

	title string   // of the section that was begun last
	worse []string // sections that say of something that it ends, or differs
}

// askedFor is what annotations ask for, as far as they are valid, and the protocol supports it.
func (f *flip) askedFor() service.Policy {
	var p service.Port
	for _, a := range f.valid() {
		a.Value.Read(a.value, &p)
	}
	return p.Policy
}

// annotation is one that is valid, with its setting.
type annotation struct {
	service.Setting
	value string
}

// valid are the annotations that this node takes from its Services, in the order of names.
func (f *flip) valid() (all []annotation) {
	for _, key := range slices.Sorted(maps.Keys(f.Annotations)) {
		name, _ := strings.CutPrefix(key, annotationPrefix)
		value := strings.TrimSpace(f.Annotations[key])
		s, known := service.SettingOf(name)
		if known && !f.refuses(name) && s.Value.Read(value, &service.Port{}) {
			all = append(all, annotation{s, value})
		}
	}
	return all
}

const annotationPrefix = "portald.io/"

func (f *flip) refuses(annotation string) bool {
	return slices.Contains(f.node.Refused, annotation) || slices.Contains(f.node.Refused, service.AllSettings)
}

// policy is what counts where portald carries the service port.
func (f *flip) policy() service.Policy { return f.asked.Or(f.node.Policy) }

// toKernel tells which way it goes.
func (f *flip) toKernel() bool { return f.to == service.ModeKernel }

// say adds a line to a section, which it begins if the last one is another.
func (f *flip) say(title string, status Status, format string, values ...any) {
	if f.title != title {
		f.title = title
		f.section(title)
	}
	if status != Fact && !slices.Contains(f.worse, title) {
		f.worse = append(f.worse, title)
	}
	f.add(status, nil, format, values...)
}

// either is one of two words, the first where the kernel is to carry.
func (f *flip) either(kernel, userspace string) string {
	if f.toKernel() {
		return kernel
	}
	return userspace
}

const modeTitle = "Mode"

func (f *flip) report() {
	_, why := modeOf(f.Port, &f.node.Node)
	f.say(modeTitle, Fact, "%s now, by %s", f.from, why)
	if f.from == f.to {
		f.find(Good, "portald explain "+f.label(), "%s is carried in mode %s already: nothing would change.", f.label(), f.to)
		return
	}
	if why := f.impossible(); why != "" {
		f.say(modeTitle, Wrong, "%s", why)
		f.find(Wrong, "portald explain "+f.label(), "%s cannot be carried in mode %s: %s.", f.label(), f.to, why)
		return
	}
	f.say(modeTitle, Fact, "as %s: %s", f.to, f.either("the kernel translates packets, and portald sees no connection",
		"portald accepts connections and dials endpoints"))
	if len(f.Others) > 0 {
		f.say(modeTitle, Fact, "the annotation is of the Service: its other ports change too (%s)",
			strings.Join(f.Others, ", "))
	}
	f.meaning()
	f.sources()
	f.annotations()
	f.choice()
	f.clients()
	f.records()
	f.open()
	f.verdict()
}

// impossible is why the service port cannot have the mode; empty: it can.
func (f *flip) impossible() string {
	switch {
	case f.refuses("mode"):
		return "this node refuses the annotation portald.io/mode (refusedAnnotations)"
	case f.toKernel() && f.node.Writer == "netsh":
		return "it takes the kernel of Linux, which this node does not run"
	case !f.to.Carries(f.Port.Name.Protocol):
		return fmt.Sprintf("portald does not carry %s, and refuses clients", f.Port.Name.Protocol)
	}
	return ""
}

// meaning says what endpoints or clients have to be made for if the mode changes, as those that read a PROXY header.
func (f *flip) meaning() {
	add := func(is bool, what string) {
		if is && !slices.Contains(f.builder.report.Meaning, what) {
			f.builder.report.Meaning = append(f.builder.report.Meaning, what)
		}
	}
	balanced := func(x service.Exposure) bool { return x.Kind == service.LoadBalancerIP }
	address, tcp := f.policy().ClientAddress, f.Port.Name.Protocol == inet.TCP
	add(address == service.AddressProxyV2 && tcp, f.either("connections lose their PROXY protocol header",
		"connections begin with a PROXY protocol header"))
	add(address == service.AddressTransparent, "the address that endpoints see of a client is another one")
	add(f.Port.ExternalLocal && len(f.Port.SourceRanges) > 0 && slices.ContainsFunc(f.Port.Exposures, balanced),
		"who is outside loadBalancerSourceRanges is told by other means, with externalTrafficPolicy Local")
}

// annotations are those that stop or start counting.
func (f *flip) annotations() {
	const title = "Annotations"
	for _, a := range f.valid() {
		name := annotationPrefix + a.Name + ": " + a.value
		switch then, until := a.Instead(f.to), a.Instead(f.from); {
		case a.Missed(f.to, a.value) && f.toKernel():
			f.say(title, Doubt, "%s stops counting: %s", name, then)
		case a.Missed(f.to, a.value):
			f.say(title, Fact, "%s stops counting: %s", name, then)
		case a.Missed(f.from, a.value):
			f.say(title, Fact, "%s starts to count; until now %s", name, until)
		}
	}
}

// verdict names what differs, and the command that changes the mode.
func (f *flip) verdict() {
	mode := "mode=" + f.to.String() + " --overwrite"
	if f.to == f.node.Mode.Or(service.ModeUserspace) {
		mode = "mode-"
	}
	next := "kubectl annotate service -n " + f.Port.Name.Namespace + " " + f.Port.Name.Name + " " + annotationPrefix + mode
	if len(f.worse) == 0 {
		f.find(Good, next, "As %s, %s would lose nothing that it has now.", f.to, f.label())
		return
	}
	f.find(Doubt, next, "As %s, %s would lose or change something: %s.", f.to, f.label(),
		strings.ToLower(strings.Join(f.worse, ", ")))
}

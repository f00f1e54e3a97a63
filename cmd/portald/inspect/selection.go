package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// selection is the flags that choose among open connections.
type selection struct {
	scope
	pods, endpoints             []string
	protocols, states, carriers choices
	standings                   choices  // of endpoints
	outcomes                    []string // this and the times are of conns alone
	times                       map[string]*string
	ips                         each[netip.Prefix]
	ports                       each[uint16]
	older, idle                 time.Duration
}

func addSelection(cmd *cobra.Command) *selection {
	s := &selection{scope: scope{of: " to"}}
	s.protocols.among, s.carriers.among, s.states.among = protocols(), carriers(), connStates()
	s.standings.among = endpointStates()
	s.ips, s.ports = each[netip.Prefix]{parse: parsePrefix}, each[uint16]{parse: parsePort}
	s.add(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&s.pods, "pod", nil, "of this endpoint or client, `[NAMESPACE/]POD`")
	f.StringSliceVar(&s.endpoints, "endpoint", nil, "of this endpoint, `ADDRESS[:PORT]` or its pod")
	f.Var(&s.ips, "ip", "with this `ADDRESS` or CIDR: the client's, the frontend's or the endpoint's")
	f.Var(&s.ports, "port", "with this `PORT`: the client's, the frontend's or the endpoint's")
	addChoices(cmd, &s.protocols, "proto", "with this `PROTOCOL`: "+list(protocols()))
	addChoices(cmd, &s.states, "state", "in this `STATE`: dialing, waiting, open, half_closed or delivering "+
		"(it was reset, and earlier bytes have yet to reach the other side); for connections that the kernel "+
		"carries, conntrack's state, such as ESTABLISHED, or for UDP open or unanswered")
	addChoices(cmd, &s.standings, "endpoint-state", "of an endpoint that is in this `STATE` in the Service now: "+
		list(endpointStates())+" (it is no longer in the Service)")
	addChoices(cmd, &s.carriers, "carried-by", "carried by this `CARRIER`: "+list(carriers()))
	f.DurationVar(&s.older, "older", 0, "open for this `TIME` or longer, as in 10m")
	f.DurationVar(&s.idle, "idle", 0, "without a byte for this `TIME` or longer, as in 1m")
	complete(cmd, "pod", completePods())
	complete(cmd, "endpoint", completeEndpoints())
	return s
}

// addTimes adds the flags that choose among ended connections by their time.
func (s *selection) addTimes(cmd *cobra.Command) {
	s.times = map[string]*string{"since": new(string), "until": new(string)}
	for _, key := range connlog.Keys() {
		if at := s.times[key.Name]; at != nil {
			cmd.Flags().StringVar(at, key.Name, "", "with --outcome: "+strings.Replace(key.Help, "at that", "at this", 1))
		}
	}
}

// checkTimes refuses times of open connections.
func (s *selection) checkTimes() error {
	for key, value := range s.times {
		if *value != "" && len(s.outcomes) == 0 {
			return usage("--%s: chooses among connections that have ended: add --outcome, or see --older", key)
		}
	}
	return nil
}

func protocols() []string { return []string{"tcp", "udp", "sctp"} }

func carriers() []string { return []string{string(record.Userspace), string(record.Kernel)} }

// connStates are the states of connections of either carrier.
func connStates() (all []string) {
	for _, s := range slices.Concat(record.ConnStates(), flows.ConnStates()) {
		if !slices.Contains(all, string(s)) {
			all = append(all, string(s))
		}
	}
	return all
}

func (s *selection) query() adminsocket.ConnectionQuery {
	return adminsocket.ConnectionQuery{
		Namespaces: s.namespaces(), Services: s.services, Pods: s.pods, Endpoints: s.endpoints,
		IPs: s.ips.values, Ports: s.ports.values, Protocols: s.protocols.words,
		States: s.states.words, EndpointStates: s.standings.words, CarriedBy: s.carriers.words,
		Older: s.older, Idle: s.idle,
	}
}

// any tells whether anything was chosen.
func (s *selection) any() bool {
	return len(s.services) > 0 || len(s.namespaces()) > 0 || s.filtered()
}

// filtered tells whether anything but Services was chosen.
func (s *selection) filtered() bool {
	texts := slices.Concat(s.pods, s.endpoints, s.protocols.words, s.states.words, s.standings.words, s.carriers.words,
		s.outcomes,
		s.ips.text, s.ports.text)
	return len(texts) > 0 || s.older > 0 || s.idle > 0
}

// scope is the flags that choose Services.
type scope struct {
	of        string // the word between what is listed and Services, with a space before it
	services  []string
	namespace string
}

func (s *scope) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&s.services, "service", nil, "of this Service, `[NAMESPACE/]NAME[:PORT]`")
	f.StringVarP(&s.namespace, "namespace", "n", "", "of the Services of this `NAMESPACE`")
	addAllNamespaces(cmd)
	complete(cmd, "service", completeServices())
	complete(cmd, "namespace", completeNamespaces())
}

// addAllNamespaces gives a command the flag that says what it does without the flag.
func addAllNamespaces(cmd *cobra.Command) {
	cmd.Flags().BoolP("all-namespaces", "A", false, "of all namespaces (the default)")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("namespace") && cmd.Flags().Changed("all-namespaces") {
			return usage("--namespace and --all-namespaces contradict each other: omit one")
		}
		return nil
	}
}

func (s *scope) namespaces() []string {
	if s.namespace == "" {
		return nil
	}
	return []string{s.namespace}
}

func (s *scope) query() adminsocket.ServiceQuery {
	return adminsocket.ServiceQuery{Namespaces: s.namespaces(), Services: s.services}
}

// empty says that there is nothing; filtered: among the rows that flags chose.
func (s *scope) empty(what string, filtered bool) string {
	end := "."
	if filtered {
		end = " match the flags."
	}
	return "No " + what + s.text() + end
}

// text is which Services were chosen, behind "connections".
func (s *scope) text() string {
	text := ""
	if len(s.services) > 0 {
		text = s.of + " " + strings.Join(s.services, ", ")
	}
	for _, namespace := range s.namespaces() {
		text += " in namespace " + namespace
	}
	return printable.Text(text)
}

// each is the value of a flag that may be given several times, or with commas.
type each[T any] struct {
	parse  func(string) (T, error)
	values []T
	text   []string
}

// String implements pflag.Value.
func (e *each[T]) String() string { return strings.Join(e.text, ",") }

// Type implements pflag.Value.
func (e *each[T]) Type() string { return "strings" }

// Set implements pflag.Value.
func (e *each[T]) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		value, err := e.parse(part)
		if err != nil {
			return err
		}
		e.values, e.text = append(e.values, value), append(e.text, part)
	}
	return nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Unmap().Prefix(a.Unmap().BitLen())
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("must be an address or a CIDR, as in 10.0.0.9 or 10.0.0.0/24")
	}
	return p.Masked(), nil
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("must be a port number")
	}
	return uint16(n), nil
}

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
	"github.com/portald/portald/proxy/record"
)

// selection is the flags that choose among open connections.
type selection struct {
	scope
	pods, endpoints, protocols, states, carriers []string
	outcomes                                     []string // of conns alone
	ips                                          each[netip.Prefix]
	ports                                        each[uint16]
	older, idle                                  time.Duration
}

func addSelection(cmd *cobra.Command) *selection {
	s := &selection{scope: scope{of: " to"}}
	s.ips, s.ports = each[netip.Prefix]{parse: parsePrefix}, each[uint16]{parse: parsePort}
	s.add(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&s.pods, "pod", nil, "of this endpoint or client, `[NAMESPACE/]POD`")
	f.StringSliceVar(&s.endpoints, "endpoint", nil, "of this endpoint, `ADDRESS[:PORT]` or its pod")
	f.Var(&s.ips, "ip", "with this `ADDRESS` or CIDR: the client's, the frontend's or the endpoint's")
	f.Var(&s.ports, "port", "with this `PORT`: the client's, the frontend's or the endpoint's")
	f.StringSliceVar(&s.protocols, "proto", nil, "with this `PROTOCOL`: tcp or udp")
	f.StringSliceVar(&s.states, "state", nil, "in this `STATE`: dialing, waiting, open, half_closed or delivering "+
		"(it was reset, and earlier bytes have yet to reach the other side); for connections that the kernel "+
		"carries, the TCP state")
	f.StringSliceVar(&s.carriers, "carried-by", nil, "carried by this `CARRIER`: userspace or kernel")
	f.DurationVar(&s.older, "older", 0, "open for this `TIME` or longer, as in 10m")
	f.DurationVar(&s.idle, "idle", 0, "without a byte for this `TIME` or longer, as in 1m")
	complete(cmd, "pod", completePods())
	complete(cmd, "endpoint", completeEndpoints())
	complete(cmd, "proto", words("tcp", "udp"))
	complete(cmd, "carried-by", words(string(record.Userspace), string(record.Kernel)))
	complete(cmd, "state", words("dialing", "waiting", "open", "half_closed", "delivering"))
	return s
}

func (s *selection) query() adminsocket.ConnectionQuery {
	return adminsocket.ConnectionQuery{
		Namespaces: s.namespaces(), Services: s.services, Pods: s.pods, Endpoints: s.endpoints,
		IPs: s.ips.values, Ports: s.ports.values, Protocols: s.protocols, States: s.states, CarriedBy: s.carriers,
		Older: s.older, Idle: s.idle,
	}
}

// any tells whether anything was chosen.
func (s *selection) any() bool {
	return len(s.services) > 0 || len(s.namespaces()) > 0 || s.filtered()
}

// filtered tells whether anything but Services was chosen.
func (s *selection) filtered() bool {
	texts := slices.Concat(s.pods, s.endpoints, s.protocols, s.states, s.carriers, s.outcomes, s.ips.text, s.ports.text)
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
	return "No " + what + s.text() + " on this node" + end
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

package config

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/secret"
)

// PortaldConfiguration has the settings that kube-proxy does not have: the second document of a configuration file,
// apiVersion portald.io/v1alpha1. A field that is left out has the default that docs/configuration.md names.
type PortaldConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// manifests are files and folders of Service, EndpointSlice and Node manifests, or "-" for standard input, in place
	// of the API server.
	Manifests []string `json:"manifests,omitempty"`
	// master is the URL of the API server, in place of the one that the kubeconfig names.
	Master secret.URL `json:"master,omitzero"`
	// serviceProxyName has only Services served whose label service.kubernetes.io/service-proxy-name has this value.
	// Empty: those without the label.
	ServiceProxyName string `json:"serviceProxyName,omitempty"`

	// refusedAnnotations are annotations that Services may not set, without portald.io/, or all.
	RefusedAnnotations []string `json:"refusedAnnotations,omitempty"`

	// clientPods has the pods of the cluster watched, so that records and lists name a client's pod.
	ClientPods bool `json:"clientPods,omitempty"`

	// connectionLog is where records of connections go.
	ConnectionLog ConnectionLogConfiguration `json:"connectionLog,omitzero"`
	// log is the daemon's own log.
	Log LogConfiguration `json:"log,omitzero"`

	// adminSocket is where the commands that look into the daemon reach it: a Unix socket, on Windows a named pipe. Left
	// out: /run/portald/admin.sock, on Windows \\.\pipe\portald-admin. Empty: they cannot.
	AdminSocket *string `json:"adminSocket,omitempty"`
	// handOverSocket is where the next portald on this node finds the one that runs, and takes over its listeners and open
	// connections: a Unix socket, in a folder that both see. Left out: beside adminSocket, such as
	// /run/portald/admin-handover.sock. Empty, without an adminSocket, and on Windows: it does not.
	HandOverSocket *string `json:"handOverSocket,omitempty"`
	// keepSocket is where the daemon finds portald keep, which keeps its listeners and open connections in case it
	// crashes: a Unix socket. If none is there when the daemon starts, it goes without. Left out: beside adminSocket, such
	// as /run/portald/admin-keep.sock. Empty, without an adminSocket, and on Windows: it does not look for one.
	KeepSocket *string `json:"keepSocket,omitempty"`

	// readOnlyAPI has the metrics server show what is open, the last records, Services and endpoints under /v1/, to all
	// users and host-network pods of the node. Left out: only root sees them, at the adminSocket.
	ReadOnlyAPI bool `json:"readOnlyAPI,omitempty"`
	// ui has the metrics server show the same as a page for a browser, the one of portald ui, under /ui/. It needs
	// readOnlyAPI and a metricsBindAddress.
	UI bool `json:"ui,omitempty"`

	// settings are the fields that service.Settings declares, by name: the daemon's values of what a Service may override.
	settings map[string]reflect.Value

	// udpMaxSessions is how many UDP sessions one service port may have at a time; one that has its answer makes room.
	UDPMaxSessions *int32 `json:"udpMaxSessions,omitempty"`
	// udpMaxSessionsTotal is how many UDP sessions all service ports together may have at a time; one of the Service that
	// has the most makes room. 0: half the ports of net.ipv4.ip_local_port_range.
	UDPMaxSessionsTotal int32 `json:"udpMaxSessionsTotal,omitempty"`
	// engine names the engine that moves the bytes of connections: auto, epoll or goroutine.
	Engine string `json:"engine,omitempty"`
	// drainTimeout is the time that open connections have to end by themselves at the end of the daemon; 0: none.
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
	// onExit says what the daemon leaves on the host when it exits: kernel (rules by which the kernel carries Services
	// until the next start), remove (nothing), or remove-on-interrupt (nothing after SIGINT, else as kernel). Left out:
	// kernel, but remove-on-interrupt with manifests in mode userspace.
	OnExit string `json:"onExit,omitempty"`

	// externalIPCIDRs are the ranges of addresses that spec.externalIPs may claim. Empty: external IPs are off.
	ExternalIPCIDRs []string `json:"externalIPCIDRs,omitempty"`
	// nodeIPs are addresses of this node, one for each family, that portals lead to. A family without one: to the
	// address of the interface that a connection came in by.
	NodeIPs []string `json:"nodeIPs,omitempty"`
	// proxyPortRange is the local ports for the listeners: "first-last", "first+more" or a single port.
	ProxyPortRange string `json:"proxyPortRange,omitempty"`
	// writer names the facility of the host that gets the rules that lead to listeners and endpoints: iptables,
	// nftables or ipvs. Left out: as mode says, with userspace iptables.
	Writer string `json:"writer,omitempty"`
	// interfaceName is the interface that the writer netsh adds the addresses of Services to.
	InterfaceName string `json:"interfaceName,omitempty"`
	// overlayNetwork says what the daemon does on a Windows node whose pods are in an overlay network: refuse, or serve.
	OverlayNetwork string `json:"overlayNetwork,omitempty"`
	// ipvs is for that writer.
	IPVS IPVSConfiguration `json:"ipvs,omitzero"`
	// serviceCIDRs are the addresses that the cluster gives Services. With the writer nftables, clients of an address
	// in them that no Service has are refused. Empty: as the ServiceCIDR objects say.
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
	// iptablesVariant is nft or legacy. Empty: the one that this host uses, which is found at start.
	IPTablesVariant string `json:"iptablesVariant,omitempty"`
}

// IPVSConfiguration has settings of IPVS that the KubeProxyConfiguration does not have.
type IPVSConfiguration struct {
	// fallback is the writer to take where the kernel has no IPVS: iptables. Empty: the daemon ends, and says what is
	// missing.
	Fallback string `json:"fallback,omitempty"`
}

// LogConfiguration is the daemon's own log, where more is to be said of it than the KubeProxyConfiguration has words
// for.
type LogConfiguration struct {
	// path of the file, "-" for standard error. Empty: standard error, for a service of Windows a file of its own.
	Path string `json:"path,omitempty"`
	// level is error, warn, info, debug or trace. Empty: as logging.verbosity says.
	Level string `json:"level,omitempty"`
	// format is text or json. Empty: as logging.format says.
	Format string `json:"format,omitempty"`
}

package plane

import (
	"fmt"
	"strings"
)

// program is one part of the control plane, whether it runs or not.
type program struct {
	name    string
	args    []string
	health  string   // the URL that says 200 when it is ready
	running *process // nil when it does not
}

func etcd(o Options, at place) *program {
	clients, peers := "http://"+at.etcd.String(), "http://"+at.peer.String()
	return &program{name: Etcd, health: clients + "/health", args: []string{
		"--name=only",
		"--data-dir=" + o.path("data"),
		"--unsafe-no-fsync", // a crash of the machine ends the test anyway
		"--log-level=warn",
		"--heartbeat-interval=10", "--election-timeout=100", // ms: it elects itself, and need not wait for others
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=only=" + peers,
	}}
}

func apiserver(o Options, at place) *program {
	return &program{name: APIServer, health: at.url() + "/readyz", args: append([]string{
		"--etcd-servers=http://" + at.etcd.String(),
		"--bind-address=" + at.apiserver.Addr().String(),
		fmt.Sprintf("--secure-port=%d", at.apiserver.Port()),
		"--advertise-address=" + advertised(at),
		"--service-cluster-ip-range=" + ranges(o),
		"--tls-cert-file=" + o.path(serverCert), "--tls-private-key-file=" + o.path(serverKey),
		"--client-ca-file=" + o.path(caCert),
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + o.path(tokenPublicKey),
		"--service-account-signing-key-file=" + o.path(tokenKey),
		"--allow-privileged=true",
		"--shutdown-watch-termination-grace-period=1s", // when it is stopped; else it waits a minute for watchers to go
		"--profiling=false",
	}, o.APIServerArgs...)}
}

// advertised is the endpoint of the Service default/kubernetes. An endpoint is never a loopback address: one of those
// for documentation, which leads nowhere, stands for it.
func advertised(at place) string {
	if at.apiserver.Addr().IsLoopback() {
		return "192.0.2.1"
	}
	return at.apiserver.Addr().String()
}

func ranges(o Options) string {
	var all []string
	for _, r := range o.Ranges {
		all = append(all, r.String())
	}
	return strings.Join(all, ",")
}

// controllers are those that a service proxy sees the work of. Nodes are left alone: no kubelet keeps them alive.
const controllers = "endpointslice-controller,endpointslice-mirroring-controller," +
	"endpoints-controller,service-cidr-controller," +
	"namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller," +
	"deployment-controller,replicaset-controller,daemonset-controller,garbage-collector-controller"

func controllerManager(o Options, at place) *program {
	kubeconfig := o.path(controllerUser.file())
	health := "https://" + at.controllers.String() + "/healthz"
	return &program{name: ControllerManager, health: health, args: append([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--client-ca-file=" + o.path(caCert), "--requestheader-client-ca-file=" + o.path(caCert),
		"--tls-cert-file=" + o.path(serverCert), "--tls-private-key-file=" + o.path(serverKey),
		"--bind-address=" + at.controllers.Addr().String(),
		fmt.Sprintf("--secure-port=%d", at.controllers.Port()),
		"--controllers=" + controllers,
		"--leader-elect=false",
		"--use-service-account-credentials=true", // each controller has a role of its own
		"--service-account-private-key-file=" + o.path(tokenKey),
		"--root-ca-file=" + o.path(caCert),
		"--kube-api-qps=1000", "--kube-api-burst=1000", // tests make thousands of objects at once
		"--profiling=false",
	}, o.ControllerManagerArgs...)}
}

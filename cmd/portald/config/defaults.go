package config

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/netsh"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/userspace"
)

// The ports of the servers are kube-proxy's.
const (
	healthPort  = "10256"
	metricsPort = "10249"
)

// defaultMinSync differs from kube-proxy's 1 s, since a sync takes portald milliseconds.
const defaultMinSync = 100 * time.Millisecond

// defaultMinSyncNFTables is less: what it writes for one change does not grow with the number of Services.
const defaultMinSyncNFTables = 5 * time.Millisecond

// defaultMasqueradeBit is kube-proxy's.
const defaultMasqueradeBit = 14

// interfaceVariable is the environment variable of kube-proxy's userspace mode of Windows.
const interfaceVariable = "INTERFACE_TO_ADD_SERVICE_IP"

// setDefaults sets fields that are not set.
func (d *documents) setDefaults() {
	d.portald.setDefaults(&d.kubeProxy, d.system)
	fill(&d.portald.Log.Path, logPath(d.isService()))
	d.kubeProxy.setDefaults()
}

// logPath is where the log is by default: a service has no standard error.
func logPath(service bool) string {
	if service {
		return filepath.Join(platform.DataDir(), "portald.log")
	}
	return "-"
}

// adminSocket is where commands reach the daemon of a system by default.
func adminSocket(system string) string {
	if system == windows {
		return adminsocket.DefaultPipe
	}
	return adminsocket.DefaultUnixSocket
}

// besideAdminSocket is where a successor or a keeper is found by default: nowhere on Windows, where sockets are not
// passed on.
func besideAdminSocket(system, admin, what string) string {
	if system == windows || !strings.HasPrefix(admin, "/") {
		return ""
	}
	return strings.TrimSuffix(admin, ".sock") + "-" + what + ".sock"
}

// DefaultKeepSocket is keepSocket where nothing is configured.
func DefaultKeepSocket() string {
	return besideAdminSocket(runtime.GOOS, adminsocket.DefaultSocket, "keep")
}

// setDefaults sets kube-proxy's defaults, as of 1.37.
func (k *kubeProxyDocument) setDefaults() {
	k.TypeMeta = kubeProxy.typeMeta()
	fill(&k.BindAddress, "0.0.0.0")
	everywhere, loopback := "0.0.0.0", "127.0.0.1"
	if addr, err := parseAddr(k.BindAddress); err == nil && addr.Is6() {
		everywhere, loopback = "::", "::1"
	}
	fill(&k.HealthzBindAddress, net.JoinHostPort(everywhere, healthPort))
	fill(&k.MetricsBindAddress, net.JoinHostPort(loopback, metricsPort))

	fill(&k.ClientConnection.ContentType, "application/vnd.kubernetes.protobuf")
	fill(&k.ClientConnection.QPS, 5)
	fill(&k.ClientConnection.Burst, 10)
	fillTime(&k.ConfigSyncPeriod, 15*time.Minute)
	logsapi.SetRecommendedLoggingConfiguration(&k.Logging)

	for _, period := range []*metav1.Duration{&k.IPTables.SyncPeriod, &k.IPVS.SyncPeriod, &k.NFTables.SyncPeriod} {
		fillTime(period, 30*time.Second)
	}
	for _, least := range []*metav1.Duration{&k.IPTables.MinSyncPeriod, &k.IPVS.MinSyncPeriod} {
		fillTime(least, defaultMinSync)
	}
	fillTime(&k.NFTables.MinSyncPeriod, defaultMinSyncNFTables)
	fillOptional(&k.IPTables.MasqueradeBit, defaultMasqueradeBit)
	fillOptional(&k.NFTables.MasqueradeBit, defaultMasqueradeBit)
	fillOptional(&k.IPTables.LocalhostNodePorts, true)
	fill(&k.IPVS.Scheduler, "rr")
	if k.Mode == modeNFTables && len(k.NodePortAddresses) == 0 {
		k.NodePortAddresses = []string{"primary"}
	}

	fillOptional(&k.OOMScoreAdj, -999)
	fillOptional(&k.Conntrack.MaxPerCore, 32*1024)
	fillOptional(&k.Conntrack.Min, 128*1024)
	fillOptional(&k.Conntrack.TCPEstablishedTimeout, metav1.Duration{Duration: 24 * time.Hour})
	fillOptional(&k.Conntrack.TCPCloseWaitTimeout, metav1.Duration{Duration: time.Hour})
}

// setDefaults sets portald's own defaults; fields of older kube-proxies are the defaults of portald's.
func (p *PortaldConfiguration) setDefaults(k *kubeProxyDocument, system string) {
	p.TypeMeta = portald.typeMeta()
	fill(&p.Writer, writerOf(system, string(k.Mode)))
	p.ConnectionLog.setDefaults()
	fillOptional(&p.AdminSocket, adminSocket(system))
	fillOptional(&p.HandOverSocket, besideAdminSocket(system, *p.AdminSocket, "handover"))
	fillOptional(&p.KeepSocket, besideAdminSocket(system, *p.AdminSocket, "keep"))
	fill(&p.Engine, EngineAuto)
	if udp := p.serviceField("udpTimeout"); k.Mode == modeUserspace && k.UDPIdleTimeout.Duration > 0 && udp.IsZero() {
		udp.Set(reflect.ValueOf(&k.UDPIdleTimeout))
	}
	p.setServiceDefaults()
	fillOptional(&p.UDPMaxSessions, splice.DefaultUDPSessions)
	fillOptional(&p.DrainTimeout, metav1.Duration{Duration: 30 * time.Second})
	if system == windows {
		fill(&p.OnExit, onExitRemove)
	}
	if p.Writer == writerNetsh {
		fill(&p.OnExit, onExitRemove)
		fill(&p.InterfaceName, cmp.Or(os.Getenv(interfaceVariable), netsh.DefaultInterface))
	}
	fill(&p.OverlayNetwork, overlayRefuse)
	if mode := string(k.Mode); len(p.Manifests) > 0 && (mode == "" || mode == modeUserspace) {
		fill(&p.OnExit, onExitCtrlC)
	}
	fill(&p.OnExit, onExitKernel)
	if !anyPort(k.PortRange) {
		fill(&p.ProxyPortRange, k.PortRange)
	}
	fill(&p.ProxyPortRange, userspace.DefaultPortRange().String())
}

package metrics

import (
	"context"

	features "k8s.io/component-base/metrics/prometheus/feature"
)

// Stages of Kubernetes' features, as the metric has them.
const (
	stageAlpha      = "ALPHA"
	stageBeta       = "BETA"
	stageStable     = ""
	stageDeprecated = "DEPRECATED"
)

// Features are kube-proxy's feature gates that depend on the configuration here.
type Features struct {
	ExternalIPs  bool // spec.externalIPs may claim addresses
	ServiceCIDRs bool // which addresses are dropped is decided by the cluster's ServiceCIDRs
	Localhost    bool // NodePorts are served at loopback addresses
}

// ShowFeatures exports which of kube-proxy's features this program has, with their stages in its Kubernetes release, as
// kubernetes_feature_enabled. It is the metric of the whole process.
func ShowFeatures(f Features) {
	for _, one := range []struct {
		name, stage string
		has         bool
	}{
		{"AllowServiceExternalIPs", stageStable, f.ExternalIPs},
		{"ComponentFlagz", stageBeta, true},
		{"ComponentStatusz", stageBeta, true},
		{"KubeProxyIPVS", stageDeprecated, true},
		{"KubeProxyNFTablesLocalhostNodePorts", stageAlpha, f.Localhost},
		{"MultiCIDRServiceAllocator", stageStable, f.ServiceCIDRs},
		{"NFTablesNetlink", stageBeta, true},
		{"PreferSameTrafficDistribution", stageStable, true},
		{"WinDSR", stageStable, false}, // of HNS, which is not programmed
		{"WinOverlay", stageStable, false},
	} {
		features.RecordFeatureInfo(context.Background(), one.name, one.stage, one.has)
	}
}

package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-proxy/config/v1alpha1"
)

// doc is one of the two documents that make a configuration.
type doc int

const (
	kubeProxy doc = iota
	portald
)

const portaldGroup = "portald.io"

// typeMeta is the kind of a document.
func (d doc) typeMeta() metav1.TypeMeta {
	if d == kubeProxy {
		return metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "KubeProxyConfiguration"}
	}
	return metav1.TypeMeta{APIVersion: portaldGroup + "/v1alpha1", Kind: "PortaldConfiguration"}
}

func (d doc) String() string { return d.typeMeta().Kind }

// kubeProxyDocument is a KubeProxyConfiguration with a field that only releases up to 1.25 had, for userspace mode.
type kubeProxyDocument struct {
	v1alpha1.KubeProxyConfiguration `json:",inline"`
	UDPIdleTimeout                  metav1.Duration `json:"udpIdleTimeout,omitzero"`
}

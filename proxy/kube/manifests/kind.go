package manifests

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portald/portald/proxy/kube/apiclient"
	"github.com/portald/portald/proxy/kube/translate"
)

// Kinds of the core group that are not read as objects.
const (
	kindList      = "List"
	kindEndpoints = "Endpoints"
)

// typeMeta is the kind of an object.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func (t typeMeta) isList() bool { return strings.HasSuffix(t.Kind, "List") }

// newObject returns an empty object of a kind, nil without an error for a kind that is not read, as pods may be.
func newObject(meta typeMeta, pods bool) (metav1.Object, error) {
	if meta.Kind == "" {
		return nil, errors.New("kind: is missing; write one, such as Service")
	}
	if meta.APIVersion == "" {
		return nil, fmt.Errorf("apiVersion: is missing on a %s; write one, such as v1", meta.Kind)
	}
	kind := schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind)
	switch version, read := versionRead(kind.GroupKind(), pods); {
	case read && meta.APIVersion == version:
		object, err := apiclient.Scheme.New(kind)
		if err != nil {
			return nil, err
		}
		return object.(metav1.Object), nil
	case read:
		return nil, fmt.Errorf("apiVersion: %q of kind %s is not read; convert it to %s", meta.APIVersion, meta.Kind, version)
	case misspelt(kind):
		return nil, fmt.Errorf("kind: no %q is in apiVersion %q of Kubernetes; check the spelling of both",
			meta.Kind, meta.APIVersion)
	}
	return nil, nil
}

// versionRead is the apiVersion in which a kind is read; false if it is not read.
func versionRead(kind schema.GroupKind, pods bool) (apiVersion string, read bool) {
	switch {
	case kind.Group == corev1.GroupName &&
		(kind.Kind == string(translate.KindService) || kind.Kind == string(translate.KindNode) ||
			pods && kind.Kind == string(translate.KindPod)):
		return corev1.SchemeGroupVersion.String(), true
	case kind.Group == networkingv1.GroupName && kind.Kind == string(translate.KindServiceCIDR):
		return networkingv1.SchemeGroupVersion.String(), true
	case kind.Group == discoveryv1.GroupName && kind.Kind == string(translate.KindEndpointSlice):
		return discoveryv1.SchemeGroupVersion.String(), true
	}
	return "", false
}

// kindsText has a line for each API group of Kubernetes, and in it the kinds of all versions; the core group is v1.
//
//go:embed kinds.txt
var kindsText string

var kindsOf = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(kindsText) {
		group, kinds, _ := strings.Cut(line, ":")
		out[group] = strings.Fields(kinds)
	}
	out[corev1.GroupName] = out["v1"]
	return out
})

// misspelt tells whether a kind does not exist: its group is one of Kubernetes' own and has no such kind in any
// version, or its group ends as they do and the kind is one that is read. Other groups may be of add-ons, *.k8s.io
// included, such as the Gateway API's.
func misspelt(kind schema.GroupVersionKind) bool {
	kinds, own := kindsOf()[kind.Group]
	switch {
	case own:
		return !slices.Contains(kinds, kind.Kind)
	case strings.HasSuffix(kind.Group, ".k8s.io"):
		read := []translate.Kind{translate.KindService, translate.KindEndpointSlice, translate.KindNode,
			translate.KindServiceCIDR}
		return slices.Contains(read, translate.Kind(kind.Kind))
	}
	return false
}

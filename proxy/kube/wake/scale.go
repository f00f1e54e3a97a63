package wake

import (
	"context"
	"fmt"
	"strconv"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/portald/portald/portal/service"
)

// scaler is client-go's client of one kind of workload in one namespace.
type scaler interface {
	GetScale(context.Context, string, metav1.GetOptions) (*autoscalingv1.Scale, error)
	UpdateScale(context.Context, string, *autoscalingv1.Scale, metav1.UpdateOptions) (*autoscalingv1.Scale, error)
}

// answerTime is how long the API server may take for both requests.
const answerTime = 10 * time.Second

// scale gives a workload that has none its replicas. False: it has some. All nodes may do so at once: the first one
// changes the version that the others have read, and these find nothing to do when they look again.
func scale(
	ctx context.Context, client kubernetes.Interface, namespace string, to service.Wake,
) (scaled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	api := scalerOf(client, namespace, to.Kind)
	if api == nil {
		return false, fmt.Errorf("scale %s: there is no such kind", to)
	}
	for {
		now, err := api.GetScale(ctx, to.Name, metav1.GetOptions{})
		if err != nil {
			return false, advised(namespace, to, err)
		}
		if now.Spec.Replicas > 0 {
			return false, nil
		}
		now.Spec.Replicas = to.Replicas
		_, err = api.UpdateScale(ctx, to.Name, now, metav1.UpdateOptions{FieldManager: "portald"})
		if !apierrors.IsConflict(err) {
			return err == nil, advised(namespace, to, err)
		}
	}
}

func scalerOf(client kubernetes.Interface, namespace, kind string) scaler {
	switch apps := client.AppsV1(); kind {
	case "deployment":
		return apps.Deployments(namespace)
	case "statefulset":
		return apps.StatefulSets(namespace)
	case "replicaset":
		return apps.ReplicaSets(namespace)
	}
	return nil
}

// advised says what failed, and what to do.
func advised(namespace string, to service.Wake, err error) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf("%s/%s is not scaled from 0 to %d", to.Kind, to.Name, to.Replicas)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: namespace %s has none of that name; write another one into the annotation portald.io/wake",
			what, namespace)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w; let a role grant this account the verbs get and update on %ss.apps/scale, as the chart "+
			"does with wake.enabled, and kustomize with the component deploy/kustomize/wake", what, err, to.Kind)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func replicas(n int32) string { return strconv.Itoa(int(n)) }

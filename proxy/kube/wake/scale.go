package wake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/portald/portald/portal/service"
)

// Scaler is the part of an API server that scales workloads: apiclient.Client.
type Scaler interface {
	Scale(ctx context.Context, resource, namespace, name string) (*autoscalingv1.Scale, error)
	UpdateScale(ctx context.Context, resource string, scale *autoscalingv1.Scale) error
}

// answerTime is how long the API server may take for both requests.
const answerTime = 10 * time.Second

// scale gives a workload that has none its replicas. False: it has some. All nodes may do so at once: the first one
// changes the version that the others have read, and these find nothing to do when they look again.
func scale(
	ctx context.Context, client Scaler, namespace string, to service.Wake,
) (scaled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if !slices.Contains(service.WakeKinds(), to.Kind) {
		return false, fmt.Errorf("scale %s: there is no such kind", to)
	}
	resource := to.Kind + "s"
	for {
		now, err := client.Scale(ctx, resource, namespace, to.Name)
		if err != nil {
			return false, advised(namespace, to, err)
		}
		if now.Spec.Replicas > 0 {
			return false, nil
		}
		now.Spec.Replicas = to.Replicas
		err = client.UpdateScale(ctx, resource, now)
		if !apierrors.IsConflict(err) {
			return err == nil, advised(namespace, to, err)
		}
	}
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

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Services reads and sets annotations of Services.
type Services struct{ core rest.Interface }

// ErrChanged is the error of an annotation that is not set, since the Service was changed meanwhile: read it again.
// ErrGone is that of a Service that is not there.
var (
	ErrChanged = errors.New("the Service was changed meanwhile")
	ErrGone    = errors.New("there is no such Service")
)

// NewServices returns the Services of a cluster. It sends no request.
func NewServices(config *rest.Config) (*Services, error) {
	core, err := coreClient(config)
	if err != nil {
		return nil, err
	}
	return &Services{core}, nil
}

// Annotation returns the value of an annotation, and the version of the Service that has it.
func (s *Services) Annotation(ctx context.Context, namespace, name, key string) (value, version string, err error) {
	var svc corev1.Service
	err = s.core.Get().Namespace(namespace).Resource("services").Name(name).Do(ctx).Into(&svc)
	return svc.Annotations[key], svc.ResourceVersion, said("read", namespace, name, err)
}

// Annotate sets an annotation of a Service that is of that version still; an empty value removes it.
func (s *Services) Annotate(ctx context.Context, namespace, name, version, key, value string) error {
	patch, err := annotationPatch(version, key, value)
	if err != nil {
		return err
	}
	err = s.core.Patch(types.MergePatchType).Namespace(namespace).Resource("services").Name(name).
		Param("fieldManager", "kubectl-portald").Body(patch).Do(ctx).Error()
	return said("annotate", namespace, name, err)
}

func annotationPatch(version, key, value string) ([]byte, error) {
	annotations := map[string]any{key: nil}
	if value != "" {
		annotations[key] = value
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": version, "annotations": annotations,
	}})
}

func said(did, namespace, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err):
		err = ErrChanged
	case apierrors.IsNotFound(err):
		err = ErrGone
	}
	return fmt.Errorf("%s Service %s/%s: %w", did, namespace, name, err)
}

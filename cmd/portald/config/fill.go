package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fill sets a field if it has the zero value, which means "not set".
func fill[T comparable](field *T, value T) {
	var open T
	if *field == open {
		*field = value
	}
}

func fillTime(field *metav1.Duration, value time.Duration) { fill(&field.Duration, value) }

// fillOptional does so for a field whose zero value is a valid choice.
func fillOptional[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

package config

// previousRelease is the one before the Kubernetes that portald is of, whose hidden metrics kube-proxy can show.
const previousRelease = "1.36"

// previousKubernetes refuses what kube-proxy refuses.
func previousKubernetes(v any) string {
	if text(v) != previousRelease {
		return "must be " + previousRelease
	}
	return ""
}

// Package apibed is the test bed with a real control plane: nodes in network namespaces, each with a portald that
// watches the API server. The parts of a test can share one.
package apibed

// Package apibed is a real control plane and its nodes, each with a daemon in network namespaces of its own, for
// tests that share them.
package apibed

// Package api tests portald with a real API server: Services and endpoints that change, faults of the control plane,
// RBAC, events, settings, metrics and scale.
package api

// Package tenants tests that nobody who may write a Service keeps others from being served: objects are generated
// that an API server takes, the strangest among them, and real writers hold what is translated of them on real
// kernels.
package tenants

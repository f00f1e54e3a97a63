// Package tenants tests isolation between tenants: no Service that the API server accepts keeps other Services from
// being served. It generates unusual but valid objects, translates them, and applies them with the real writers to a
// real kernel.
package tenants

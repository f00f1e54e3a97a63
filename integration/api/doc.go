// Package api tests what the daemon makes of an API server: objects as they come, change and go, faults, access,
// figures.
package api

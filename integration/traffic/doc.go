// Package traffic tests connections and UDP sessions as clients see them: load balancing, affinity, half-close and
// resets, UDP, real programs, leaks.
package traffic

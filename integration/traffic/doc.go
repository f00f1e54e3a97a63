// Package traffic tests connections and sessions as clients see them: choice of endpoints, endings, UDP, real
// programs, leaks.
package traffic

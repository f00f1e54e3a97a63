package service

// Algorithm is how the endpoint of a new connection is chosen, where no affinity binds its client.
type Algorithm uint8

// The algorithms. The kernel modes have those that their kernel has, else the daemon's default.
const (
	AlgorithmDefault Algorithm = iota // the daemon's setting
	RoundRobin                        // one after the other
	LeastConnections                  // the one with the fewest open connections
	SourceHash                        // by the client's address, on every node the same one
	Random
)

// String is the word that settings use.
func (a Algorithm) String() string {
	switch a {
	case RoundRobin:
		return "round-robin"
	case LeastConnections:
		return "least-connections"
	case SourceHash:
		return "source-hash"
	case Random:
		return "random"
	}
	return ""
}

// ParseAlgorithm reads the word that String writes; false when it is none.
func ParseAlgorithm(word string) (Algorithm, bool) {
	for _, a := range Algorithms() {
		if word == a.String() {
			return a, true
		}
	}
	return AlgorithmDefault, false
}

// Algorithms are all that may be chosen.
func Algorithms() []Algorithm {
	return []Algorithm{RoundRobin, LeastConnections, SourceHash, Random}
}

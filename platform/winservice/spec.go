package winservice

// Spec is what the service runs: a program and its arguments. All else of the service is the same everywhere.
type Spec struct {
	Program string // its path
	Args    []string
}

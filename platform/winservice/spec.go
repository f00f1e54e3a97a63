package winservice

// Spec is the command line of the service: a program and its arguments. All else of the service is the same everywhere.
type Spec struct {
	Program string // its path
	Args    []string
}

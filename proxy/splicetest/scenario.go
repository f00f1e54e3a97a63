package splicetest

// scenario is one test of the suite.
type scenario struct {
	name  string
	run   func(*trial)
	needs Capability
	scope scope
}

// scope tells what a scenario shares with others while it runs.
type scope uint8

const (
	shared  scope = iota // runs beside other scenarios
	alone                // measures the process: no other scenario runs meanwhile
	process              // changes the process: runs in a child of its own
	network              // needs a network of its own: runs in a child in a network namespace of its own
)

func (s scenario) start(t *trial) {
	switch {
	case s.scope == alone, isChild():
		s.run(t)
	case s.scope == shared:
		t.Parallel()
		s.run(t)
	default:
		t.Parallel()
		runChild(t, s.scope == network)
	}
}

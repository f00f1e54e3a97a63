package inspect

// The groups of portald's commands.
const (
	GroupReadOnly = "look"
	GroupChange   = "change"
	GroupRun      = "run"
)

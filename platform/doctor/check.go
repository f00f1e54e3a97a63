package doctor

// Check looks for one fault. Its texts are for its findings, and for the manual.
type Check struct {
	Name     string
	Severity Severity // of its findings, unless one is less bad
	System   string   // linux or windows; empty: both
	What     string   // it finds
	Why      string   // that matters
	Do       string   // about it: a command with placeholders in capitals
	run      func(*Facts) result
}

// Severity is how bad a finding is.
type Severity string

// The severities, in the order of their weight.
const (
	OK      Severity = "ok"
	Note    Severity = "note"    // unusual, and harmless by itself
	Warning Severity = "warning" // something works less well than it could, or may soon not work
	Error   Severity = "error"   // traffic fails
)

// severities are all of them, lightest first.
func severities() []Severity { return []Severity{OK, Note, Warning, Error} }

// The systems.
const (
	linux   = "linux"
	windows = "windows"
)

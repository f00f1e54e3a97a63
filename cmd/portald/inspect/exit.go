package inspect

import "fmt"

// The exit codes of the commands; 1 is any other error.
const (
	exitUsage       = 2 // a flag or argument is wrong
	exitUnreachable = 3 // the daemon does not answer, or speaks another version
	exitNothing     = 4 // what was named is not there
)

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

// CommandExitCode is the code that portald ends with. It has a name of its own: exec.ExitError has an ExitCode too.
func (e exitError) CommandExitCode() int { return e.code }

// usage is the error of a command line that cannot be meant.
func usage(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), exitUsage}
}

// nothing is the error of something that was named and is not there.
func nothing(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), exitNothing}
}

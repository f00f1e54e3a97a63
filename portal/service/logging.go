package service

import (
	"strconv"
	"strings"
)

// Logging is which connections of a service port the connection log has. A zero field leaves it to the daemon.
type Logging struct {
	Records Records
	Sample  int // of connections without a failure, one in so many
}

// Records are the connections that are logged.
type Records uint8

// The choices.
const (
	RecordsDefault  Records = iota // the daemon's setting
	RecordsAll                     // all of them, but for those that sampling leaves out
	RecordsFailures                // those that failed, or of which a dial did
	RecordsOff                     // none
)

// String is the word that settings use.
func (r Records) String() string {
	switch r {
	case RecordsAll:
		return "all"
	case RecordsFailures:
		return "failures"
	case RecordsOff:
		return "off"
	}
	return ""
}

// ParseRecords reads the word that String writes; false when it is none.
func ParseRecords(word string) (Records, bool) {
	for _, r := range []Records{RecordsAll, RecordsFailures, RecordsOff} {
		if word == r.String() {
			return r, true
		}
	}
	return RecordsDefault, false
}

// Ratio is one in a number, such as 1/100.
type Ratio struct {
	Default int
	Most    int
	Part    func(*Port) *int
}

// Form implements Value.
func (v Ratio) Form() string {
	return "1/NUMBER with a number from 1 to " + strconv.Itoa(v.Most) + ", such as 1/100"
}

// Read implements Value.
func (v Ratio) Read(text string, port *Port) bool {
	number, ok := strings.CutPrefix(text, "1/")
	n, err := strconv.ParseUint(number, 10, 31)
	if !ok || err != nil || n == 0 || n > uint64(v.Most) {
		return false
	}
	*v.Part(port) = int(n)
	return true
}

func (v Ratio) setDefault(port *Port) { *v.Part(port) = v.Default }

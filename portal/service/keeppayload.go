package service

// KeepPayload tells of which connections some payload is kept in memory. It is client data: the zero value keeps none,
// and the daemon has no setting for all Services.
type KeepPayload uint8

// The values.
const (
	KeepNoPayload  KeepPayload = iota
	KeepBadlyEnded             // the first and the last bytes of those that end badly
)

// keepWords are the words for the values.
var keepWords = [...]string{"off", "badly-ended"}

// String is the word that the annotation has.
func (k KeepPayload) String() string { return keepWords[k] }

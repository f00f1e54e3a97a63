package connlog

// Format appends a line in one format, with what ends it.
type Format func(b []byte, l *Line) []byte

// FormatNames lists the names of the formats.
func FormatNames() []string { return []string{"json", "text", "logfmt", "columns"} }

// FormatNamed returns the format of a name, nil if there is none.
func FormatNamed(name string) Format {
	switch name {
	case "json":
		return AppendJSON
	case "text":
		return AppendText
	case "logfmt":
		return AppendLogfmt
	case "columns":
		return AppendColumns
	}
	return nil
}

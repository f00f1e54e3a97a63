package adminapi

import (
	"bufio"
	"iter"
	"net/http"
)

// chunk is how much of a list is written at a time, in bytes.
const chunk = 64 << 10

// writeList streams a JSON array, one element a line.
func writeList[T any](w http.ResponseWriter, all iter.Seq[*T], appendOne func([]byte, *T) ([]byte, error)) (err error) {
	out := bufio.NewWriterSize(w, chunk)
	line, before := make([]byte, 0, 1024), "[\n"
	for one := range all {
		if line, err = appendOne(append(line[:0], before...), one); err != nil {
			return err
		}
		if _, err = out.Write(line); err != nil {
			return err
		}
		before = ",\n"
	}
	end := "\n]\n"
	if before == "[\n" {
		end = "[]\n"
	}
	if _, err := out.WriteString(end); err != nil {
		return err
	}
	return out.Flush()
}

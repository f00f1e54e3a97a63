package manifests

import (
	"context"
	"fmt"
	"io"
	"os"
)

// readStreams reads standard input and pipes to their ends. A blocked read cannot be interrupted: if ctx ends first,
// the goroutine remains until the process ends.
func (s *Source) readStreams(ctx context.Context) ([]*reading, error) {
	var out []*reading
	for _, l := range s.locations {
		if !l.stream {
			continue
		}
		type result struct {
			data []byte
			err  error
		}
		done := make(chan result, 1)
		go func() {
			data, err := s.readStream(l)
			done <- result{data, err}
		}()
		select {
		case <-ctx.Done():
			return nil, nil
		case r := <-done:
			if r.err != nil {
				return nil, fmt.Errorf("read manifests from %s: %w", l.path, r.err)
			}
			for _, f := range l.files {
				out = append(out, &reading{file: f, data: r.data})
			}
		}
	}
	return out, nil
}

func (s *Source) readStream(l *location) ([]byte, error) {
	switch {
	case l.path != "-":
		return os.ReadFile(l.path)
	case s.Stdin != nil:
		return io.ReadAll(s.Stdin)
	}
	return io.ReadAll(os.Stdin)
}

package manifests

import (
	"context"
	"fmt"
	"io"
	"os"
)

// readStreams reads standard input and pipes to their ends. A read that waits for somebody cannot be interrupted: when
// ctx ends first, it is left to the end of the process.
func (m *Source) readStreams(ctx context.Context) ([]*reading, error) {
	var out []*reading
	for _, src := range m.sources {
		if !src.stream {
			continue
		}
		type result struct {
			data []byte
			err  error
		}
		done := make(chan result, 1)
		go func() {
			data, err := m.readStream(src)
			done <- result{data, err}
		}()
		select {
		case <-ctx.Done():
			return nil, nil
		case r := <-done:
			if r.err != nil {
				return nil, fmt.Errorf("read manifests from %s: %w", src.path, r.err)
			}
			for _, f := range src.files {
				out = append(out, &reading{file: f, data: append(r.data, '\n')})
			}
		}
	}
	return out, nil
}

func (m *Source) readStream(src *location) ([]byte, error) {
	switch {
	case src.path != "-":
		return os.ReadFile(src.path)
	case m.Stdin != nil:
		return io.ReadAll(m.Stdin)
	}
	return io.ReadAll(os.Stdin)
}

package main

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
)

// maxLogFile is the size at which a log file is renamed, so that a log has at most twice that.
const maxLogFile = 100 << 20

// openLog opens the daemon's own log where the configuration says, and logs the configuration's warnings. Hooks get its
// lines too.
func openLog(
	cfg *config.Config, warnings []string, hooks ...logrus.Hook,
) (log *logrus.Logger, closeLog func() error, err error) {
	if cfg.LogPath == "-" {
		log, closeLog = cfg.NewLogger(os.Stderr), func() error { return nil }
	} else {
		file := &logFile{path: cfg.LogPath, max: maxLogFile}
		if err := file.open(); err != nil {
			return nil, nil, fmt.Errorf("open the log: %w", err)
		}
		log, closeLog = cfg.NewLogger(file), file.Close
	}
	for _, h := range hooks {
		log.AddHook(h)
	}
	warn(log, warnings)
	return log, closeLog, nil
}

// logFile appends to a file, which it renames to PATH.1 when it has reached a size. Safe for concurrent use.
type logFile struct {
	path string
	max  int64
	mu   sync.Mutex
	file *os.File
	size int64
}

// open opens the file for appending. Not everybody may read it: lines have names and addresses of clients.
func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write writes one line.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(line)) > l.max {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return n, err
}

// rotate renames the file and begins a new one. If somebody holds the old one, as Windows allows, the file goes on and
// is tried again when it has grown as much once more. If no file can be opened, the next line tries again.
func (l *logFile) rotate() error {
	if err := l.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	kept := os.Rename(l.path, l.path+".1")
	if err := l.open(); err != nil {
		return err
	}
	if kept != nil {
		l.size = 1
	}
	return nil
}

// Close closes the file.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

package connlog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
)

// Rotation is when a file is renamed and a new one begun, and what becomes of the renamed ones, which have the time in
// their names.
type Rotation struct {
	Size     int64         // in bytes, in steps of 1 MiB; 0: at none
	Age      time.Duration // since the file was begun, or opened; 0: at none
	Files    int           // that are kept; 0: all
	Compress bool          // with gzip
}

const mebibyte = 1 << 20

// Rotates tells whether this process renames files.
func (r Rotation) Rotates() bool { return r.Size > 0 || r.Age > 0 }

// rotated is a file that is rotated here. Others may rename and remove it too, except on Windows.
type rotated struct {
	log    lumberjack.Logger
	most   int // MiB
	age    time.Duration
	opened time.Time
	open   bool
	ours   os.FileInfo // of the file that was opened last; nil: none was
	size   int64       // of the file, or more
	named  time.Time   // when a file was renamed last
	stuck  error       // why the file was not rotated lately
}

func newRotated(path string, r Rotation) *rotated {
	most := max(int(r.Size/mebibyte), 1)
	if r.Size <= 0 {
		most = 1 << 40 // no file has so many MiB
	}
	return &rotated{
		log:  lumberjack.Logger{Filename: path, MaxSize: most, MaxBackups: r.Files, Compress: r.Compress},
		most: most, age: r.Age, opened: time.Now(),
	}
}

// Write appends lines, to a new file if the file would become too large. A file that cannot be renamed, such as one
// that somebody has open on Windows, goes on, and is tried again.
func (r *rotated) Write(lines []byte) (int, error) {
	if err := r.reopen(); err != nil {
		return 0, err
	}
	if r.size+int64(len(lines)) >= int64(r.log.MaxSize)*mebibyte {
		r.nextName()
	}
	n, err := r.log.Write(lines)
	r.size += int64(n)
	if err == nil || n > 0 {
		return n, err
	}
	r.log.MaxSize = 1 << 40
	if n, again := r.log.Write(lines); again == nil {
		r.stuck = err
		return n, nil
	}
	return 0, err
}

// nextName waits until a renamed file has another name than the one before: names have milliseconds, and a file of the
// same name would be replaced.
func (r *rotated) nextName() {
	time.Sleep(time.Until(r.named.Add(2 * time.Millisecond)))
	r.named, r.size = time.Now(), 0
}

// reopen opens the path again after follow has closed the file.
func (r *rotated) reopen() error {
	if r.open {
		return nil
	}
	f, err := openAppend(r.log.Filename) // a new one gets its mode here
	if err != nil {
		return err
	}
	r.open, r.log.MaxSize = true, r.most
	if r.ours, err = f.Stat(); err == nil {
		r.size = r.ours.Size()
	}
	return errors.Join(err, f.Close())
}

// follow closes the file, so that the next write opens what is at the path then, and renames one that is too old.
func (r *rotated) follow() (moved bool, err error) {
	err, r.stuck = r.stuck, nil
	if r.age > 0 && time.Since(r.opened) >= r.age {
		r.opened = time.Now()
		if info, stat := os.Stat(r.log.Filename); stat == nil && info.Size() > 0 {
			r.nextName()
			err = r.log.Rotate()
		}
	}
	err = errors.Join(err, r.Close())
	if err != nil {
		err = fmt.Errorf("rotate the file: %w", err)
	}
	there, stat := os.Stat(r.log.Filename)
	if stat != nil { // to say now what a write would meet
		err = errors.Join(err, r.reopen())
	}
	return stat != nil || r.ours != nil && !os.SameFile(there, r.ours), err
}

// Close closes the file.
func (r *rotated) Close() error {
	r.open = false
	return r.log.Close()
}

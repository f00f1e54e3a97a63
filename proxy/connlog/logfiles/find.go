package logfiles

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one file of a log.
type file struct {
	path  string
	until time.Time // nothing was written to it later; zero: it is being written to
	info  fs.FileInfo
}

// backupTime is how lumberjack writes into names when it renamed a file, in UTC.
const backupTime = "2006-01-02T15-04-05.000"

// find returns the files of a log, the oldest first.
func find(path string) ([]file, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	renamed := map[string]file{} // by the name without .gz
	for _, entry := range entries {
		f, name, ok := renamedFile(path, entry)
		if !ok {
			continue
		}
		if _, twice := renamed[name]; !twice || f.path == filepath.Join(filepath.Dir(path), name) {
			renamed[name] = f // not the one that it is being compressed into
		}
	}
	var all []file
	for _, f := range renamed {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.path, b.path)) })
	info, err := os.Stat(path)
	if err != nil {
		return all, nilIf(len(all) > 0, err)
	}
	return append(all, file{path: path, info: info}), nil
}

func nilIf(is bool, err error) error {
	if is {
		return nil
	}
	return err
}

// renamedFile tells whether an entry of the folder was the log of that path, before this program or logrotate renamed
// it: log-2026-11-21T12-00-00.000.json, log.json.1, log.json-20261121, log-20261121.json, with .gz or without.
func renamedFile(path string, entry fs.DirEntry) (f file, name string, ok bool) {
	base, ext := filepath.Base(path), filepath.Ext(path)
	name = strings.TrimSuffix(entry.Name(), ".gz")
	part := behind(name, strings.TrimSuffix(base, ext), ext)
	if part == "" && ext != "" {
		part = behind(name, base, "")
	}
	if !entry.Type().IsRegular() || !isTime(part) {
		return file{}, "", false
	}
	at := filepath.Join(filepath.Dir(path), entry.Name())
	info, err := os.Lstat(at) // entry.Info has not always what tells it from other files
	if err != nil {           // it is gone
		return file{}, "", false
	}
	until, err := time.Parse(backupTime, part)
	if err != nil {
		until = info.ModTime()
	}
	return file{at, until, info}, name, true
}

// behind returns what a name has between a stem, with a separator, and an end.
func behind(name, stem, end string) string {
	part, ok := strings.CutPrefix(name, stem)
	part, ended := strings.CutSuffix(part, end)
	if !ok || !ended || len(part) < 2 || part[0] != '-' && part[0] != '.' {
		return ""
	}
	return part[1:]
}

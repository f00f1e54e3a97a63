package netsh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/portald/portald/platform"
)

// The names of files that are there for a moment, for os.CreateTemp and filepath.Glob.
const (
	scriptForm = "script-*.txt"
	stateForm  = "addresses-*.json"
)

// state is the file that a run leaves for the next one: the addresses that it added, or was about to add.
type state struct {
	Interface string       `json:"interface"`
	Addresses []netip.Addr `json:"addresses"`
}

func (w *Writer) stateFile() string { return filepath.Join(w.State, "addresses.json") }

// readState reads a file; the zero state if there is none.
func readState(path string) (s state, err error) {
	if err := platform.CheckFile(path); err != nil {
		return state{}, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return state{}, fmt.Errorf("read the state file %s: %w", path, err)
	}
	return s, nil
}

// write replaces the file at once: a reader, or the next boot, finds the old one or the new one.
func (s state) write(path string) error {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), stateForm)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// load reads the state file, once. Addresses of an earlier run that the device still has are ours; those of an earlier
// run with another interface are removed.
func (w *Writer) load(ctx context.Context) error {
	if w.loaded {
		return nil
	}
	if err := platform.MakeFolder(w.State); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	saved, err := readState(w.stateFile())
	if err != nil {
		w.Log("%v: addresses that an earlier run added stay until the next boot", err)
	}
	if !strings.EqualFold(saved.Interface, w.Interface) {
		if err := removeSaved(ctx, w.Options, saved); err != nil {
			return err
		}
		if err := w.read(); err != nil {
			return err
		}
		saved = state{Interface: w.Interface}
	}
	for _, a := range saved.Addresses {
		if w.host.addrs[a].alone {
			w.address(a).ours = true
		}
	}
	w.listOthers()
	w.removeScratch()
	w.loaded, w.saved, w.newer = true, saved, true
	return nil
}

// removeScratch removes the files that a killed run was writing.
func (w *Writer) removeScratch() {
	for _, form := range []string{scriptForm, stateForm} {
		files, _ := filepath.Glob(filepath.Join(w.State, form)) // both forms are valid
		for _, f := range files {
			os.Remove(f)
		}
	}
}

// save writes the addresses that are ours to the state file, if they are others than before.
func (w *Writer) save() error {
	if !w.newer {
		return nil
	}
	now := state{Interface: w.Interface}
	for _, a := range slices.SortedFunc(maps.Keys(w.addrs), netip.Addr.Compare) {
		if w.addrs[a].ours {
			now.Addresses = append(now.Addresses, a)
		}
	}
	if err := now.write(w.stateFile()); err != nil {
		return fmt.Errorf("write the state file: %w", err)
	}
	w.saved, w.newer = now, false
	return nil
}

// remove removes what the state file has, and the folder.
func (w *Writer) remove(ctx context.Context) error {
	saved := w.saved
	if !w.loaded {
		var err error
		if saved, err = readState(w.stateFile()); err != nil {
			w.Log("%v: addresses that an earlier run added stay until the next boot", err)
		}
	}
	if err := removeSaved(ctx, w.Options, saved); err != nil {
		return err
	}
	w.loaded, w.saved, w.addrs = false, state{}, map[netip.Addr]*address{}
	if err := os.Remove(w.stateFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the state file: %w", err)
	}
	w.removeScratch()
	os.Remove(w.State) // which fails if others have files there
	return nil
}

// removeSaved removes the addresses of a state that its interface still has. If the interface is gone, so are they.
func removeSaved(ctx context.Context, o Options, saved state) error {
	if len(saved.Addresses) == 0 {
		return nil
	}
	if err := platform.MakeFolder(o.State); err != nil { // for scripts
		return fmt.Errorf("make the state folder: %w", err)
	}
	o.Interface = saved.Interface
	w, err := newWriter(o)
	if err != nil {
		return err
	}
	if err := w.read(); errors.Is(err, errNoInterface) {
		return nil
	} else if err != nil {
		return err
	}
	ours := slices.DeleteFunc(slices.Clone(saved.Addresses), func(a netip.Addr) bool { return !w.host.addrs[a].alone })
	left, err := w.perform(ctx, removing, ours)
	for _, a := range slices.SortedFunc(maps.Keys(left), netip.Addr.Compare)[:min(len(left), maxSingle)] {
		err = errors.Join(err, left[a])
	}
	return err
}

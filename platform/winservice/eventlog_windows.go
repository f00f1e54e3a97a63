package winservice

import (
	"fmt"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc/eventlog"
)

// OpenEventLog opens the log "Application". A source that is not installed works too, but Windows then shows its texts
// in other words.
func OpenEventLog() (*EventLog, error) {
	l, err := eventlog.Open(Name)
	if err != nil {
		return nil, fmt.Errorf("open the event log: %w", err)
	}
	return newEventLog(applicationLog{l.Handle}), nil
}

// applicationLog implements eventSink.
type applicationLog struct{ handle windows.Handle }

func (l applicationLog) Report(severity Severity, id uint32, text string) error {
	p, err := windows.UTF16PtrFromString(text)
	if err != nil {
		return err
	}
	return windows.ReportEvent(l.handle, uint16(severity), 0, id, 0, 1, 0, &p, nil)
}

// sources is the registry's key of the sources of the log "Application".
const sources = `SYSTEM\CurrentControlSet\Services\EventLog\Application`

// InstallEvents registers the source, with the messages of EventCreate.exe, which consist of the text alone.
func InstallEvents() error {
	if err := UninstallEvents(); err != nil {
		return err
	}
	const all = uint32(Error) | uint32(Warning) | uint32(Information)
	if err := eventlog.InstallAsEventCreate(Name, all); err != nil {
		return fmt.Errorf("register the source of events: %w", err)
	}
	return nil
}

// UninstallEvents removes the source, if there is one.
func UninstallEvents() error {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, sources+`\`+Name, registry.QUERY_VALUE)
	if err != nil {
		return nil // registry.ErrNotExist, or what the next step tells
	}
	key.Close()
	if err := eventlog.Remove(Name); err != nil {
		return fmt.Errorf("remove the source of events: %w", err)
	}
	return nil
}

package winservice

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// Manager is the SCM of this host. It implements Installer and Controller.
type Manager struct{ scm windows.Handle }

// Connect connects to the SCM, with the rights to create services or only to look at them.
func Connect(change bool) (*Manager, error) {
	access := uint32(windows.SC_MANAGER_CONNECT)
	if change {
		access |= windows.SC_MANAGER_CREATE_SERVICE
	}
	h, err := windows.OpenSCManager(nil, nil, access)
	if err != nil {
		return nil, explain("connect to the service control manager", err)
	}
	return &Manager{h}, nil
}

// Close ends the connection.
func (m *Manager) Close() error { return windows.CloseServiceHandle(m.scm) }

// Create implements Installer. It leaves no service behind that is not complete.
func (m *Manager) Create(spec Spec) error {
	c := mgr.Config{StartType: mgr.StartAutomatic, ErrorControl: mgr.ErrorNormal, DisplayName: displayName}
	s, err := (&mgr.Mgr{Handle: m.scm}).CreateService(Name, spec.Program, c, spec.Args...)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := configure(s); err != nil {
		if left := s.Delete(); left != nil {
			return fmt.Errorf("%w; it is left incomplete: %v", err, left)
		}
		return err
	}
	return nil
}

// Update implements Installer.
func (m *Manager) Update(spec Spec) error {
	s, err := m.open(windows.SERVICE_ALL_ACCESS)
	if err != nil {
		return err
	}
	defer s.Close()
	line, err := syscall.UTF16PtrFromString(windows.ComposeCommandLine(append([]string{spec.Program}, spec.Args...)))
	if err != nil {
		return err
	}
	shown, err := syscall.UTF16PtrFromString(displayName)
	if err != nil {
		return err
	}
	err = windows.ChangeServiceConfig(s.Handle, windows.SERVICE_WIN32_OWN_PROCESS, windows.SERVICE_AUTO_START,
		windows.SERVICE_ERROR_NORMAL, line, nil, nil, nil, nil, nil, shown)
	if err != nil {
		return err
	}
	return configure(s)
}

func (m *Manager) open(access uint32) (*mgr.Service, error) {
	name, err := syscall.UTF16PtrFromString(Name)
	if err != nil {
		return nil, err
	}
	h, err := windows.OpenService(m.scm, name, access)
	if err != nil {
		return nil, err
	}
	return &mgr.Service{Name: Name, Handle: h}, nil
}

// Control implements Controller.
func (m *Manager) Control(c Command) error {
	access := map[Command]uint32{
		StartService: windows.SERVICE_START, StopService: windows.SERVICE_STOP, DeleteService: windows.DELETE,
	}
	s, err := m.open(access[c])
	if err != nil {
		return err
	}
	defer s.Close()
	switch c {
	case StartService:
		return s.Start()
	case StopService:
		_, err := s.Control(svc.Stop)
		return err
	}
	return s.Delete()
}

// Status implements Controller.
func (m *Manager) Status() (Status, error) {
	s, err := m.open(windows.SERVICE_QUERY_STATUS | windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return Status{}, err
	}
	defer s.Close()
	now, err := s.Query()
	if err != nil {
		return Status{}, err
	}
	out := Status{
		State: State(now.State), PID: now.ProcessId, Exit: now.Win32ExitCode, Special: now.ServiceSpecificExitCode,
	}
	return out, readConfig(s, &out)
}

// readConfig reads how the service is installed.
func readConfig(s *mgr.Service, into *Status) error {
	size := uint32(unsafe.Sizeof(windows.QUERY_SERVICE_CONFIG{}))
	for {
		buf := make([]uint64, size/8+1) // aligned
		c := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
		err := windows.QueryServiceConfig(s.Handle, c, uint32(len(buf)*8), &size)
		if err == windows.ERROR_INSUFFICIENT_BUFFER && size > uint32(len(buf)*8) {
			continue
		}
		if err != nil {
			return err
		}
		text := windows.UTF16PtrToString(c.BinaryPathName)
		line, err := windows.DecomposeCommandLine(text)
		if err != nil || len(line) == 0 {
			return fmt.Errorf("the command line of the service, %q, has no program: %w", text, err)
		}
		into.Start, into.Program, into.Args = startOf(c.StartType, isDelayed(s)), line[0], line[1:]
		return nil
	}
}

func isDelayed(s *mgr.Service) bool {
	var info windows.SERVICE_DELAYED_AUTO_START_INFO
	size := uint32(unsafe.Sizeof(info))
	err := windows.QueryServiceConfig2(s.Handle, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO,
		(*byte)(unsafe.Pointer(&info)), size, &size)
	return err == nil && info.IsDelayedAutoStartUp != 0
}

func startOf(start uint32, delayed bool) string {
	switch {
	case start == windows.SERVICE_AUTO_START && delayed:
		return "Automatic (delayed)"
	case start == windows.SERVICE_AUTO_START:
		return "Automatic"
	case start == windows.SERVICE_DEMAND_START:
		return "Manual"
	}
	return "Disabled"
}

package doctor

import (
	"context"
	"fmt"

	syswindows "golang.org/x/sys/windows"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/winservice"
)

// look collects what there is on Windows.
func (f *Facts) collect(b *batch) {
	gather(b, "the rights of this process", &f.Elevated, func(context.Context) (bool, error) {
		return syswindows.GetCurrentProcessToken().IsElevated(), nil
	})
	gather(b, "the service control manager", &f.Service, serviceState)
	gather(b, "netsh", &f.Excluded, readExcluded)
}

func serviceState(context.Context) (string, error) {
	m, err := winservice.Connect(false)
	if err != nil {
		return "", err
	}
	defer m.Close()
	status, err := m.Status()
	if winservice.IsMissing(err) {
		return "not installed", nil
	}
	return status.State.String(), err
}

func readExcluded(ctx context.Context) (out []ExcludedPorts, err error) {
	for _, protocol := range []string{"tcp", "udp"} {
		text, err := platform.Run(ctx, "netsh", []string{"interface", "ipv4", "show", "excludedportrange",
			"protocol=" + protocol}, nil)
		if err != nil {
			return nil, fmt.Errorf("list the ports that Windows keeps: %w", err)
		}
		out = append(out, parseExcluded(string(text), protocol)...)
	}
	return out, nil
}

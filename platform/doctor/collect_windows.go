package doctor

import (
	"context"
	"fmt"

	syswindows "golang.org/x/sys/windows"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/hns"
	"github.com/portald/portald/platform/winservice"
)

// look collects what there is on Windows.
func (f *Facts) collect(b *batch) {
	gather(b, "the rights of this process", &f.Elevated, func(context.Context) (bool, error) {
		return syswindows.GetCurrentProcessToken().IsElevated(), nil
	})
	gather(b, "the service control manager", &f.Service, serviceState)
	gather(b, "netsh", &f.Excluded, readExcluded)
	gather(b, "netsh", &f.Dynamic, readDynamic)
	gather(b, "HNS", &f.Networks, hns.Networks)
	gather(b, "HNS", &f.Balancers, hns.LoadBalancers)
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

func readExcluded(ctx context.Context) ([]ExcludedPorts, error) {
	return readPorts(ctx, "excludedportrange", parseExcluded)
}

func readDynamic(ctx context.Context) ([]DynamicPorts, error) {
	return readPorts(ctx, "dynamicport", parseDynamic)
}

// readPorts has netsh show ports of both protocols. Those of IPv6 are the same.
func readPorts[T any](ctx context.Context, what string, parse func(text, protocol string) []T) (out []T, err error) {
	for _, protocol := range []string{"tcp", "udp"} {
		text, err := platform.Run(ctx, "netsh", []string{"interface", "ipv4", "show", what, "protocol=" + protocol}, nil)
		if err != nil {
			return nil, fmt.Errorf("netsh interface ipv4 show %s: %w", what, err)
		}
		out = append(out, parse(string(text), protocol)...)
	}
	return out, nil
}

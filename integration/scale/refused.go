//go:build linux

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"

	"github.com/portald/portald/integration/topology"
)

var quarantinedMetric = regexp.MustCompile(`(?m)^portald_service_ports_set_aside (\d+)$`)

// refused is how many service ports portald refuses, as its metrics tell; 0 of other proxies.
func refused(ctx context.Context, node *topology.Host) (int, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return node.Dial(ctx, network, address)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:10249/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	match := quarantinedMetric.FindSubmatch(text)
	if match == nil {
		return 0, nil
	}
	return strconv.Atoi(string(match[1]))
}

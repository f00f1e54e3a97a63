//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// dialer connects from a host, as net.Dialer.DialContext.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// ask sends hello over a new connection and returns the name of the pod that replied.
func ask(ctx context.Context, dial dialer, network, address string) (pod string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := dial(ctx, network, address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	pod, ok := strings.CutPrefix(strings.TrimSpace(answer), greeting)
	if !ok {
		return "", fmt.Errorf("answered %q", answer)
	}
	return pod, nil
}

// greeting is the reply of a pod; its name follows.
const greeting = "hello from "

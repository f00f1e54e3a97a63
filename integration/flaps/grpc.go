//go:build linux

package main

import (
	"context"
	"net/netip"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// connectGRPC makes a channel as gRPC makes it by default: one connection, and another one with back-off when it fails.
// An operation is a health check on it.
func connectGRPC(to netip.AddrPort) (operation, error) {
	channel, err := grpc.NewClient("passthrough:///"+to.String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	health := grpc_health_v1.NewHealthClient(channel)
	return func(ctx context.Context) (kind, string) {
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		switch {
		case err != nil:
			return kindOfStatus(err, channel), err.Error()
		case answer.Status != grpc_health_v1.HealthCheckResponse_SERVING:
			return wrongAnswer, answer.String()
		}
		return "", ""
	}, nil
}

// kindOfStatus tells what an operation died of: codes do not. A deadline passes without an answer, or without a
// connection.
func kindOfStatus(err error, channel *grpc.ClientConn) kind {
	switch {
	case status.Code(err) != codes.DeadlineExceeded:
		return kindOf(err.Error())
	case channel.GetState() == connectivity.Ready:
		return noAnswer
	}
	return noConnect
}

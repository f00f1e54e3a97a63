package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"
)

// answerTime is how long an answer may take before it is lost; resendTime, before a datagram is sent once more.
const (
	answerTime = 10 * time.Second
	resendTime = 2 * time.Second
)

var errWrong = errors.New("other bytes came than were sent")

// load is one kind of traffic to a target, by so many clients.
type load struct {
	title string
	times int
	run   func(address string, c *count, stop <-chan struct{})
}

// loads are those of a protocol; life is how long a connection is held, 0: until the load is stopped.
func loads(protocol string, life time.Duration) []load {
	switch protocol {
	case "udp":
		return []load{
			{"answers, one socket", 2, func(a string, c *count, stop <-chan struct{}) { askAgain(a, echoOf, c, stop) }},
			{"answers, a socket each", 1, func(a string, c *count, stop <-chan struct{}) { askOnce(a, echoOf, c, stop) }},
		}
	case "dns":
		return []load{
			{"answers, a socket each", 1, func(a string, c *count, stop <-chan struct{}) {
				askOnce(a, func() dnsQuery { return nameOf(addressOf(a)) }, c, stop)
			}},
		}
	}
	return []load{
		{"exchanges, open connections", 10, func(a string, c *count, stop <-chan struct{}) { keepOpen(a, life, c, stop) }},
		{"new connections", 2, connectAgain},
	}
}

// every calls one again and again with a pause until stop is closed.
func every(pause time.Duration, stop <-chan struct{}, one func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		one()
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// keepOpen keeps a connection open: it sends pieces of a stream that does not repeat, without waiting for their echoes,
// and checks each byte of those. After a failure, or when the connection's life is over, it goes on with another one.
func keepOpen(address string, life time.Duration, c *count, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if err := keepOneOpen(address, life, c, stop); err != nil {
			c.failure(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func keepOneOpen(address string, life time.Duration, c *count, stop <-chan struct{}) error {
	conn, err := net.DialTimeout("tcp", address, answerTime)
	if err != nil {
		return err
	}
	defer conn.Close()
	type piece struct {
		data []byte
		sent time.Time
	}
	pieces := make(chan piece, 1000)
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for p := range pieces {
			_ = conn.SetReadDeadline(time.Now().Add(2 * answerTime))
			got := make([]byte, len(p.data))
			if _, err := io.ReadFull(conn, got); err != nil {
				failed <- err
				return
			}
			if !bytes.Equal(got, p.data) {
				failed <- errWrong
				return
			}
			c.ok(time.Since(p.sent), len(got))
		}
	}()
	var over <-chan time.Time
	if life > 0 {
		over = time.After(life)
	}
	stream := rand.NewChaCha8([32]byte{byte(rand.Uint32())})
	for {
		data := make([]byte, 1+rand.IntN(8000))
		_, _ = stream.Read(data) // it cannot fail
		select {
		case err := <-failed:
			return err
		case pieces <- piece{data, time.Now()}:
		}
		_ = conn.SetWriteDeadline(time.Now().Add(2 * answerTime))
		if _, err := conn.Write(data); err != nil {
			return err
		}
		select {
		case <-stop:
			close(pieces)
			return <-failed
		case <-over:
			close(pieces)
			return <-failed
		case err := <-failed:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// connectAgain connects again and again, 50 times a second, for one exchange each.
func connectAgain(address string, c *count, stop <-chan struct{}) {
	every(20*time.Millisecond, stop, func() {
		began := time.Now()
		conn, err := net.DialTimeout("tcp", address, answerTime)
		if err != nil {
			c.failure(fmt.Errorf("connect: %w", err))
			return
		}
		defer conn.Close()
		if err := exchange(conn, echoOf(), answerTime); err != nil {
			c.failure(err)
			return
		}
		c.ok(time.Since(began), 0)
	})
}

// askOnce asks from a new socket each time, 50 times a second.
func askOnce(address string, make func() dnsQuery, c *count, stop <-chan struct{}) {
	every(20*time.Millisecond, stop, func() {
		began := time.Now()
		conn, err := net.Dial("udp", address)
		if err == nil {
			err = ask(conn, make(), c)
			_ = conn.Close()
		}
		if err != nil {
			c.failure(err)
			return
		}
		c.ok(time.Since(began), 0)
	})
}

// askAgain asks from the same socket, 50 times a second.
func askAgain(address string, make func() dnsQuery, c *count, stop <-chan struct{}) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		c.failure(err)
		return
	}
	defer conn.Close()
	every(20*time.Millisecond, stop, func() {
		began := time.Now()
		if err := ask(conn, make(), c); err != nil {
			c.failure(err)
			return
		}
		c.ok(time.Since(began), 0)
	})
}

// dnsQuery is a query, and a check of its answer.
type dnsQuery struct {
	data   []byte
	length int // of the answer; 0: that of a datagram
	is     func(answer []byte) error
}

// echoOf asks for something that has not been asked for before.
func echoOf() dnsQuery {
	data := binary.BigEndian.AppendUint64(nil, rand.Uint64())
	return dnsQuery{data, len(data), func(answer []byte) error {
		if !bytes.Equal(answer, data) {
			return errWrong
		}
		return nil
	}}
}

// The types of the records of addresses.
const (
	ipv4Address = 1
	ipv6Address = 28
)

// addressOf is the type of address that the Service kubernetes has in a cluster whose DNS server is at an address: both
// Services have one of the cluster's first family.
func addressOf(server string) byte {
	if strings.HasPrefix(server, "[") {
		return ipv6Address
	}
	return ipv4Address
}

// nameOf asks for the address of the Service kubernetes.
func nameOf(record byte) dnsQuery {
	id := uint16(rand.Uint32())
	data := binary.BigEndian.AppendUint16(nil, id)
	data = append(data, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for label := range strings.SplitSeq("kubernetes.default.svc.cluster.local", ".") {
		data = append(append(data, byte(len(label))), label...)
	}
	data = append(data, 0, 0, record, 0, 1)
	return dnsQuery{data, 0, func(answer []byte) error {
		if len(answer) < 12 || binary.BigEndian.Uint16(answer) != id || answer[3]&15 != 0 || answer[7] != 1 {
			return fmt.Errorf("%w: % x", errWrong, answer)
		}
		return nil
	}}
}

// ask exchanges a datagram, by two if one may be sent once more.
func ask(conn net.Conn, q dnsQuery, c *count) error {
	if c.resends {
		if err := exchange(conn, q, resendTime); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		c.again()
	}
	return exchange(conn, q, answerTime)
}

// exchange asks, and waits for the answer.
func exchange(conn net.Conn, q dnsQuery, wait time.Duration) error {
	_ = conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Write(q.data); err != nil {
		return err
	}
	answer := make([]byte, max(q.length, 512))
	n, err := io.ReadAtLeast(conn, answer[:], max(q.length, 1))
	if err != nil {
		return err
	}
	return q.is(answer[:n])
}

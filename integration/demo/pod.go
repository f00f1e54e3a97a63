//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/portald/portald/integration/topology"
)

// pod is a TCP and UDP server that answers each line and each datagram with its name, and fileRequest with its file.
type pod struct {
	Name string
	Host *topology.Host

	stream  net.Listener
	packets net.PacketConn
	wg      sync.WaitGroup
}

func (p *pod) start() (err error) {
	if p.stream, err = p.Host.Listen("tcp", ":"+podHTTP); err != nil {
		return fmt.Errorf("start pod %s: %w", p.Name, err)
	}
	if p.packets, err = p.Host.ListenPacket("udp", ":"+podDNS); err != nil {
		return errors.Join(fmt.Errorf("start pod %s: %w", p.Name, err), p.stream.Close())
	}
	p.wg.Go(p.serveStream)
	p.wg.Go(p.servePackets)
	return nil
}

// stop closes the listeners and waits for open connections. Further calls do nothing.
func (p *pod) stop() error {
	if p.stream == nil {
		return nil
	}
	err := errors.Join(p.stream.Close(), p.packets.Close())
	p.stream = nil
	p.wg.Wait()
	return err
}

func (p *pod) serveStream() {
	for stream := p.stream; ; {
		c, err := stream.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.greet(c) })
	}
}

// greet answers each line until the client closes. Errors become visible at the client.
func (p *pod) greet(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(timeout))
	for in := bufio.NewScanner(c); in.Scan(); {
		if in.Text() == fileRequest {
			_ = c.SetDeadline(time.Now().Add(fileTimeout))
			_, _ = c.Write(file())
			return
		}
		if _, err := io.WriteString(c, greeting+p.Name+"\n"); err != nil {
			return
		}
	}
}

func (p *pod) servePackets() {
	buf := make([]byte, 1500)
	for packets := p.packets; ; {
		_, from, err := packets.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = packets.WriteTo([]byte(greeting+p.Name+"\n"), from) // the client notices a lost answer
		}
	}
}

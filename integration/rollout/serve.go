package main

import (
	"io"
	"net"
)

// serve sends back all that comes.
func serve(port string) error {
	tcp, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	udp, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	go echoPackets(udp)
	for {
		c, err := tcp.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c)
		}()
	}
}

func echoPackets(udp net.PacketConn) {
	data := make([]byte, 2048)
	for {
		n, from, err := udp.ReadFrom(data)
		if err != nil {
			return
		}
		_, _ = udp.WriteTo(data[:n], from)
	}
}

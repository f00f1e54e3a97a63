// Probe does what Go programs cannot do under Wine as it is installed, and says how it went. Its arguments are two
// addresses of the host, and those of a netsh.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	if len(os.Args) < 3 {
		os.Exit(7)
	}
	fmt.Println("remove all:", removeAll())
	fmt.Println("UDP:", exchange(os.Args[1], os.Args[2]))
	netsh, err := exec.Command(filepath.Join(os.Getenv("SystemRoot"), "System32", "netsh.exe"), os.Args[3:]...).Output()
	fmt.Printf("netsh: %q %v\n", netsh, err)
}

func removeAll() error {
	dir, err := os.MkdirTemp("", "probe")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// exchange sends a datagram from one socket to another, at the same port of another address.
func exchange(one, other string) error {
	a, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(one)})
	if err != nil {
		return err
	}
	defer a.Close()
	port := a.LocalAddr().(*net.UDPAddr).Port
	b, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(other), Port: port})
	if err != nil {
		return err
	}
	defer b.Close()
	if _, err := a.WriteTo([]byte(one), b.LocalAddr()); err != nil {
		return err
	}
	buf := make([]byte, 100)
	n, from, err := b.ReadFrom(buf)
	if err != nil {
		return err
	}
	if from.String() != a.LocalAddr().String() || string(buf[:n]) != one {
		return fmt.Errorf("%q from %s", buf[:n], from)
	}
	return nil
}

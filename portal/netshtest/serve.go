package netshtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
)

// request is sent by a fake netsh.exe: its arguments, and the script that they name, which is on its own host.
type request struct {
	Arguments []string `json:"arguments"`
	Script    string   `json:"script,omitempty"`
}

// Serve answers a Client on each connection, one request each, until the listener is closed. A connection that is
// closed before the answer is a process that was killed.
func (n *Netsh) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go n.answer(conn)
	}
}

func (n *Netsh) answer(conn net.Conn) {
	defer conn.Close()
	var req request
	if json.NewDecoder(conn).Decode(&req) != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		conn.Read(make([]byte, 1)) // ends with the connection
		cancel()
	}()
	if r, err := n.Run(ctx, req.Arguments, req.Script); err == nil {
		json.NewEncoder(conn).Encode(r) // a client that is gone was killed
	}
}

// Client runs a Netsh that serves elsewhere.
type Client struct{ Address string } // of its TCP listener

// Exec runs it with arguments, of which -f names a script on this host, until it ends or ctx does.
func (c Client) Exec(ctx context.Context, args ...string) (r Result, err error) {
	script, err := scriptOf(args)
	if err != nil {
		return r, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return r, fmt.Errorf("reach the simulator: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := json.NewEncoder(conn).Encode(request{args, script}); err != nil {
		return r, fmt.Errorf("ask the simulator: %w", err)
	}
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return r, fmt.Errorf("read the simulator's answer: %w", err)
	}
	return r, nil
}

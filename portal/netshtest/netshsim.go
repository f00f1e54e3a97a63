// Package netshtest simulates the netsh of Windows where portald uses it: it adds and removes addresses of a Host,
// shows them, and prints what the real one prints, in English, German or Chinese, in the code page of the console, with
// its exit codes. It can be slow, and it can fail in the ways that the real one does. It does not know portald.
//
// Tests call it in their process (Exec), or by a fake netsh.exe over a socket (Serve, Client). Its Host is Memory, or
// one that changes a network namespace.
//
// # Captures
//
// The messages of a real node's netsh are one JSON file in UTF-8, with or without a byte order mark; Capture has its
// fields. A Netsh of a capture (NewFromCapture) has the interfaces, addresses and excluded ports of that node, and says
// what its netsh said, byte by byte:
//
//	{
//	  "format": 1,
//	  "windows": "10.0.20348.2527",
//	  "culture": "de-DE",
//	  "oemCodePage": 850,
//	  "interfaces": [
//	    {"name": "vEthernet (HNS Internal NIC)", "index": 7,
//	     "addresses": [{"address": "172.22.0.1", "prefixLength": 16, "state": "Preferred"}]}
//	  ],
//	  "excludedPorts": [{"family": "ipv4", "protocol": "tcp", "first": 50000, "last": 50059}],
//	  "runs": [
//	    {"name": "exists", "arguments": ["interface", "ipv4", "add", "address", "name=7", "address=192.0.2.1"],
//	     "exitCode": 1, "milliseconds": 93, "output": "RGFzIE9iamVrdCBpc3QgYmVyZWl0cyB2b3JoYW5kZW4uDQoNCg=="}
//	  ]
//	}
//
// Output is the standard output in base64, since its code page is part of what is captured. The names of runs are the
// values of Said: one command has several of them, one for each situation.
package netshtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/portald/portald/platform/backoff"
)

// Netsh is a simulated netsh. Its fields may be changed while nothing runs; any goroutine may run it.
type Netsh struct {
	Host     Host
	Language Language
	Faults   Faults
	PerCall  time.Duration // that a process takes to start
	PerLine  time.Duration // that a command takes

	captured map[Said]Result // what a real one said instead

	mu    sync.Mutex
	calls [][]string
}

// Result is the output of a process, and its exit code.
type Result struct {
	Output []byte `json:"output"`
	Code   int    `json:"code"`
}

// Faults make commands fail, hang or lie.
type Faults struct {
	NotElevated bool // the process may not change anything
	NoEffect    bool // changes are not made, and the exit code is 0
	Hang        bool // it never ends
	KillAfter   int  // it is killed by somebody after so many commands of a script; 0: not
	HangAfter   int  // it hangs after so many commands of a script; 0: not
}

// The exit codes. Killed is the one of a process that the task manager ends.
const (
	succeeded = 0
	failed    = 1
	killed    = 1
)

// Exec runs it with arguments, of which -f names a script on this host, until it ends or ctx does.
func (n *Netsh) Exec(ctx context.Context, args ...string) (Result, error) {
	script, err := scriptOf(args)
	if err != nil {
		return Result{}, err
	}
	return n.Run(ctx, args, script)
}

// scriptOf reads the script that arguments name.
func scriptOf(args []string) (string, error) {
	if len(args) != 2 || args[0] != "-f" {
		return "", nil
	}
	text, err := os.ReadFile(args[1])
	return string(text), err
}

// Run is Exec with the text of the script. The error is ctx's: the process was killed.
func (n *Netsh) Run(ctx context.Context, args []string, script string) (Result, error) {
	n.mu.Lock()
	n.calls = append(n.calls, args)
	n.mu.Unlock()
	if err := backoff.Sleep(ctx, n.PerCall); err != nil {
		return Result{}, err
	}
	if n.Faults.Hang {
		<-ctx.Done()
		return Result{}, context.Cause(ctx)
	}
	if len(args) == 2 && args[0] == "-f" {
		return n.runScript(ctx, script)
	}
	return n.runCommand(ctx, args)
}

// Calls returns the arguments of all processes so far.
func (n *Netsh) Calls() [][]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([][]string(nil), n.calls...)
}

// runScript runs the lines of a script, also after one that fails. The exit code is the last line's.
func (n *Netsh) runScript(ctx context.Context, script string) (out Result, err error) {
	done := 0
	for line := range strings.Lines(script) {
		args := words(line)
		if len(args) == 0 || strings.HasPrefix(args[0], "#") {
			continue
		}
		switch {
		case n.Faults.KillAfter > 0 && done == n.Faults.KillAfter:
			return Result{out.Output, killed}, nil
		case n.Faults.HangAfter > 0 && done == n.Faults.HangAfter:
			<-ctx.Done()
			return Result{}, context.Cause(ctx)
		}
		r, err := n.runCommand(ctx, args)
		if err != nil {
			return Result{}, err
		}
		out = Result{append(out.Output, r.Output...), r.Code}
		done++
	}
	return out, nil
}

// runCommand runs one command.
func (n *Netsh) runCommand(ctx context.Context, args []string) (Result, error) {
	if err := backoff.Sleep(ctx, n.PerLine); err != nil {
		return Result{}, err
	}
	c, err := parse(args)
	var text string
	if err == nil {
		text, err = n.do(c)
	}
	var said saidError
	switch {
	case err == nil && text == "":
		return n.say(Done), nil
	case err == nil:
		return Result{n.Language.encode(text), succeeded}, nil
	case errors.As(err, &said):
		return n.say(Said(said)), nil
	}
	return Result{n.Language.encode(fmt.Sprintf("%v\r\n\r\n", err)), failed}, nil
}

// say returns the output for a situation: its own, or a captured one.
func (n *Netsh) say(s Said) Result {
	if r, ok := n.captured[s]; ok {
		return r
	}
	code := failed
	if s == Done {
		code = succeeded
	}
	return Result{n.Language.encode(n.Language.texts().said[s] + "\r\n"), code}
}

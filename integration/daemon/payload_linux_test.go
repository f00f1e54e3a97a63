package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
)

const keepPayload = "portald.io/keep-payload: badly-ended"

// What a client has sent, and what it got, is shown of a connection that the endpoint reset, with either engine: none
// of one that ended well, nothing to those who may only look, and nothing once the annotation is gone. The log and the
// records have none of it.
func TestPayload(t *testing.T) {
	bed.NeedsLinux(t, "the endpoint's reset comes behind its answer")
	for _, engine := range []string{"epoll", "goroutine"} {
		t.Run(engine, func(t *testing.T) { payloadOf(t, engine) })
	}
}

func payloadOf(t *testing.T, engine string) {
	b := bed.New(t)
	b.Serve(b.Net.Pod(0), bed.PodPort, func(c *net.TCPConn) {
		request, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 500 Oops\r\n\r\nsecret answer \x1b[2J")
		if request.URL.Path == "/well" {
			return
		}
		_, _ = io.ReadFull(c, make([]byte, len("more")))
		_ = c.SetLinger(0)
	})
	cart := b.Cart(0)
	cart.Annotations = []string{keepPayload}
	d := b.Start(cart.String(), "--engine="+engine)
	s := shell{d}
	if out, errOut := s.tail(); out != "" || !strings.Contains(errOut, "has ended badly") {
		t.Errorf("before any connection: %s%s", out, errOut)
	}
	s.request("/well", "")
	s.request("/bad", "more")
	bad := d.RecordWhere("of the reset", func(r bed.Record) bool { return r.Outcome == "endpoint_reset" })
	out, errOut := s.tail()
	for _, want := range []string{
		"endpoint_reset", "client→endpoint: 45 bytes", "|GET /bad HTTP/1.|", "endpoint→client: 39 bytes",
		"00000020  65 72 20 1b 5b 32 4a                              |er .[2J|",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not there:\n%s%s", want, out, errOut)
		}
	}
	if strings.Contains(out, "/well") || strings.Contains(out, "\x1b") || errOut != "" {
		t.Errorf("there is more than one, or a control character:\n%q\n%s", out, errOut)
	}
	out, _ = s.tail("-o", "json", "--service", "cart")
	var p adminsocket.Payload
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if up := p.ClientToEndpoint; p.Record.Outcome != "endpoint_reset" || len(up.Parts) != 1 || up.Lacks != "" ||
		!bytes.HasPrefix(up.Parts[0].Data, []byte("GET /bad ")) || !bytes.HasSuffix(up.Parts[0].Data, []byte("more")) {
		t.Errorf("%+v", p)
	}
	if out, _ := s.tail("--outcome", "cut"); out != "" {
		t.Errorf("another outcome: %s", out)
	}
	if out, errOut := s.tail("123456789"); out != "" || !strings.Contains(errOut, "No payload is kept of such") {
		t.Errorf("another id: %s%s", out, errOut)
	}
	if status := s.connect("--read-only"); status != http.StatusForbidden {
		t.Errorf("for those who may only look: %d", status)
	}
	if status := s.connect(); status != http.StatusOK {
		t.Errorf("for an operator: %d", status)
	}
	if out := s.run("services", "-o", "wide"); !strings.Contains(out, "badly-ended") {
		t.Errorf("services: %s", out)
	}
	if out := s.run("explain", "shop/cart:http"); !strings.Contains(out, "payload of connections that end badly is kept") {
		t.Errorf("explain: %s", out)
	}
	for _, of := range []string{d.Log.String(), bad.String(), s.run("tail", "-o", "json")} {
		if strings.Contains(of, "secret") || strings.Contains(of, "/bad") {
			t.Errorf("there is payload:\n%s", of)
		}
	}
	s.letsGo(cart)
}

// letsGo: when the annotation goes, so does what was kept, also of an open connection.
func (s shell) letsGo(cart bed.Service) {
	s.Helper()
	open, _, _ := dialled(s.Daemon)
	defer open.Close()
	_, err := io.WriteString(open, "half of a request")
	s.Must(err)
	const used = `portald_resource_used{resource="payload_bytes"}`
	s.Eventually("payload of an open connection", func() bool { return s.Metric(used) > 0 })
	cart.Annotations = nil
	s.Apply(cart.String())
	s.Eventually("memory to be let go", func() bool { return s.Metric(used) == 0 })
	if out, errOut := s.tail(); out != "" || !strings.Contains(errOut, "no Service has the annotation") {
		s.Errorf("without the annotation: %s%s", out, errOut)
	}
	cart.Annotations, cart.Mode = []string{keepPayload}, "kernel"
	s.Apply(cart.String())
	if out := s.run("explain", "shop/cart:http"); !strings.Contains(out, "no payload is kept") {
		s.Errorf("in kernel mode: %s", out)
	}
}

func dialled(d *bed.Daemon) (net.Conn, *bufio.Reader, error) {
	d.Helper()
	c, err := bed.Dial(bed.AnswerTimeout, d.Client, "tcp", bed.HostPort(bed.IP4, 80))
	d.Must(err)
	d.Must(c.SetDeadline(time.Now().Add(bed.AnswerTimeout)))
	return c, bufio.NewReader(c), nil
}

// shell runs commands of portald at a daemon.
type shell struct{ *bed.Daemon }

// request sends a request, reads the answer's first line, sends more, and reads until the end.
func (s shell) request(path, more string) {
	s.Helper()
	c, answer, _ := dialled(s.Daemon)
	defer c.Close()
	_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: cart\r\nX-A: b\r\n\r\n")
	s.Must(err)
	_, err = answer.ReadString('\n')
	s.Must(err)
	_, err = io.WriteString(c, more)
	s.Must(err)
	_, _ = io.Copy(io.Discard, answer)
}

// tail runs portald tail --payload, and returns what it prints and says.
func (s shell) tail(args ...string) (out, errOut string) {
	s.Helper()
	line := s.Line(append([]string{"tail", "--payload", "--socket", s.Socket}, args...)...)
	cmd := s.Node.Command(s.Context(), line[0], line[1:]...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		s.Fatalf("tail --payload %v: %v\n%s", args, err, &e)
	}
	return o.String(), e.String()
}

func (s shell) run(args ...string) string {
	s.Helper()
	line := s.Line(append(args, "--socket", s.Socket)...)
	out, _ := s.Try(s.Node, line[0], line[1:]...) // explain has an exit code of its own
	return out
}

// connect asks for payload over portald connect, and returns the status of the answer.
func (s shell) connect(args ...string) int {
	s.Helper()
	line := s.Line(append(append([]string{"connect"}, args...), "--socket", s.Socket)...)
	cmd := s.Node.Command(s.Context(), line[0], line[1:]...)
	in, err := cmd.StdinPipe()
	s.Must(err)
	out, err := cmd.StdoutPipe()
	s.Must(err)
	s.Must(cmd.Start())
	defer func() {
		in.Close()
		_ = cmd.Wait() // it ends with its input
	}()
	answer := bufio.NewReader(out)
	_, err = answer.ReadString('\n') // the greeting
	s.Must(err)
	_, err = io.WriteString(in, "POST /v1/payload?last=20 HTTP/1.1\r\nHost: portald\r\nContent-Length: 0\r\n\r\n")
	s.Must(err)
	response, err := http.ReadResponse(answer, nil)
	s.Must(err)
	body, _ := io.ReadAll(response.Body)
	if has := bytes.Contains(body, []byte(`"data":`)); has != (response.StatusCode == http.StatusOK) {
		s.Errorf("status %d, payload is there: %t", response.StatusCode, has)
	}
	return response.StatusCode
}

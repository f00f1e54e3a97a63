//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

func looking() []scene {
	return []scene{{
		title: "Who is connected, and which pod fails",
		about: "cart-b is down for a moment, and then two clients stay connected. On the node, portald lists what is " +
			"open, what each endpoint does, and the connections that needed more than one dial; and it resets one " +
			"connection.",
		play: look,
	}, {
		title: "Why does nobody answer",
		about: "All pods of the Service wishlist fail their readiness checks. portald explains what it does for the " +
			"Service, in the order of a packet.",
		play: explain,
	}}
}

func look(ctx context.Context, s *show) error {
	b := s.pods[1]
	if err := b.stop(); err != nil {
		return err
	}
	// cart-b is dialled for one or two of them, too few for an ejection.
	_, err := s.askAll(ctx, slices.Repeat([]request{s.client("tcp", cartIP, httpPort)}, 3)...)
	if err := errors.Join(err, b.start()); err != nil {
		return err
	}
	kept, err := s.connect(ctx, 2)
	defer closeAll(kept)
	if err != nil {
		return err
	}
	endpoints, err := s.portald(ctx, "endpoints", "--service", "shop/cart:http")
	if err != nil {
		return err
	}
	s.table(endpoints, "ENDPOINT", "POD", "STATE", "OPEN", "DIALS", "FAILURES", "LAST-ERROR")
	if !hasLine(endpoints, "shop/cart-b", "connection refused") {
		return errors.New("portald endpoints does not say that cart-b refused a connection")
	}
	tail, err := s.portald(ctx, "tail", "--last", "1", "--attempts", ">1")
	if err != nil {
		return err
	}
	s.record(tail[0])
	s.line("")
	if !strings.Contains(tail[0], "[tried "+b.Host.IPv4.String()) {
		return errors.New("portald tail does not show the dial that cart-b refused")
	}
	return s.cutOne(ctx, kept)
}

// cutOne lists the open connections, and resets the first of them.
func (s *show) cutOne(ctx context.Context, kept []net.Conn) error {
	conns, err := s.portald(ctx, "conns", "--service", "shop/cart:http")
	if err != nil {
		return err
	}
	s.table(conns, "ID", "SERVICE", "CLIENT", "POD", "STATE", "AGE")
	from := kept[0].LocalAddr().String()
	i := slices.IndexFunc(conns, func(line string) bool { return strings.Contains(line, from) })
	if i < 0 {
		return fmt.Errorf("portald conns does not list the connection from %s", from)
	}
	cut, err := s.portald(ctx, "cut", strings.Fields(conns[i])[0])
	if err != nil {
		return err
	}
	s.table(cut)
	_ = kept[0].SetReadDeadline(time.Now().Add(timeout))
	if _, err := kept[0].Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the client of the connection that was cut sees %v, want a reset", err)
	}
	closeAll(kept)
	records, err := s.records.take(ctx, 5)
	if err != nil {
		return err
	}
	if n := containing(records, "  cut  reset by proxy"); n != 1 {
		return fmt.Errorf("%d records say that the connection was cut, want 1", n)
	}
	s.check("the endpoint that fails is named, with its error; one connection was reset, and its record says by whom")
	return nil
}

func explain(ctx context.Context, s *show) error {
	what := "wishlist has three endpoints, each with conditions: {ready: false}"
	if err := s.edit(ctx, what, func(m *shop) { m.Wishlist = true }); err != nil {
		return err
	}
	if err := s.refused(ctx, s.client("tcp", wishlistIP, httpPort)); err != nil {
		return err
	}
	said, err := s.portald(ctx, "explain", "shop/wishlist:http")
	if err != nil {
		return err
	}
	s.table(sections(said, "Frontends", "Endpoints for", "Next: "))
	if err := s.edit(ctx, "wishlist has none", func(m *shop) { m.Wishlist = false }); err != nil {
		return err
	}
	for _, p := range s.pods {
		if !hasLine(said, p.Host.IPv4.String(), "not ready") {
			return fmt.Errorf("portald explain does not say that %s is not ready", p.Name)
		}
	}
	s.check("the endpoints that are not used are listed with the reason, and a verdict follows")
	return nil
}

// connect opens connections that stay open and silent.
func (s *show) connect(ctx context.Context, n int) (kept []net.Conn, err error) {
	q := s.client("tcp", cartIP, httpPort)
	for range n {
		c, err := q.from.Dial(ctx, q.network, q.address)
		if err != nil {
			return kept, err
		}
		kept = append(kept, c)
	}
	return kept, nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// portald runs a command of portald on the node, and returns the lines that it prints.
func (s *show) portald(ctx context.Context, args ...string) ([]string, error) {
	shown := make([]string, len(args))
	for i, a := range args {
		if shown[i] = a; strings.ContainsAny(a, "<>*") {
			shown[i] = "'" + a + "'"
		}
	}
	s.rest(ctx, sceneRest/2)
	s.line("%s portald %s", s.ink.dim("node$"), strings.Join(shown, " "))
	text, err := s.run(ctx, s.net.Node, s.daemon.program, args...)
	return strings.Split(strings.TrimRight(text, "\n"), "\n"), err
}

// table prints lines in these columns of their first line, without any all of them.
func (s *show) table(lines []string, columns ...string) {
	for _, l := range lines {
		s.line("%s%s", s.ink.dim(" │ "), s.ink.pods(pick(l, lines[0], columns)))
	}
	s.line("")
}

// pick returns the parts of a line that are below these headings.
func pick(line, head string, columns []string) string {
	if len(columns) == 0 {
		return line
	}
	runes, out := []rune(line), ""
	for _, c := range columns {
		from := strings.Index(" "+head+" ", " "+c+" ")
		name := strings.TrimLeft(head[from+len(c):], " ")
		to := min(len(head)-len(name), len(runes))
		if name == "" {
			to = len(runes)
		}
		out += string(runes[min(from, to):to])
	}
	return out
}

// sections returns those with one of these words, and a mark where others were.
func sections(lines []string, words ...string) (out []string) {
	for section := range strings.SplitSeq(strings.Join(lines, "\n"), "\n\n") {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(section, w) }) {
			out = append(append(out, strings.Split(section, "\n")...), "")
		} else if len(out) > 0 && out[len(out)-1] != "…" {
			out = append(out, "…")
		}
	}
	return slices.DeleteFunc(out, func(l string) bool { return l == "" })
}

// hasLine tells whether a line contains both texts.
func hasLine(lines []string, a, b string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, a) && strings.Contains(l, b) })
}

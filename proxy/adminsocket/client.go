package adminsocket

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/explain"
)

// The errors of a Client, to be told apart by errors.Is. Their texts say what to do.
var (
	ErrNotReachable = errors.New("portald is not reachable")
	ErrPermission   = errors.New("permission denied")
	ErrVersion      = errors.New("portald speaks another version of the admin API")
	ErrNotFound     = errors.New("not found")
)

// Client sends requests to a daemon. Safe for concurrent use. Each call connects again if it has to, so a Client
// outlives a restart of the daemon; a call returns as soon as its ctx ends.
type Client struct {
	where string // the daemon, in errors
	local bool   // it is at a socket of this host
	http  http.Client
}

// NewClient returns a client of the daemon at a socket; empty: DefaultSocket. It does not connect yet: Info tells
// whether the daemon is there.
func NewClient(socket string) *Client {
	socket = cmp.Or(socket, DefaultSocket)
	c := NewClientOver(socket, func(ctx context.Context) (net.Conn, error) { return dial(ctx, socket) })
	c.local = true
	return c
}

// NewClientOver returns a client of a daemon that is not at a socket of this host: dial connects to it. Errors call it
// by the text where.
func NewClientOver(where string, dial func(context.Context) (net.Conn, error)) *Client {
	c := &Client{where: where}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			connection, err := dial(ctx)
			if err != nil {
				return nil, notConnected{err}
			}
			return connection, nil
		},
		DisableCompression: true,
	}
	return c
}

// Dial connects to the socket of a daemon, for others who speak its API.
func Dial(ctx context.Context, socket string) (net.Conn, error) { return dial(ctx, socket) }

// notConnected marks the errors of dialling. Whatever else net/http returns comes from a daemon that was there: its
// own errors for a connection that is closed are many, and not all of them can be told by errors.Is.
type notConnected struct{ error }

func (e notConnected) Unwrap() error { return e.error }

// Close closes connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Info returns what the daemon says of itself.
func (c *Client) Info(ctx context.Context) (info Info, err error) {
	return info, c.Get(ctx, "/v1/info", nil, &info)
}

// Connections returns the open connections and sessions that match, in the order asked for. All of them are in memory:
// set a Limit for a view of some, or take EachConnection.
func (c *Client) Connections(ctx context.Context, q ConnectionQuery) ([]Connection, error) {
	all := []Connection{}
	err := c.EachConnection(ctx, q, func(one *Connection) error {
		all = append(all, *one)
		return nil
	})
	return all, err
}

// EachConnection calls do for each of these, which is overwritten by the next, until do fails.
func (c *Client) EachConnection(ctx context.Context, q ConnectionQuery, do func(*Connection) error) error {
	var one Connection
	return c.EachRow(ctx, "/v1/connections", q.Values(), func(row []byte) error {
		if err := readConnection(string(row), &one); err != nil {
			return err
		}
		return do(&one)
	})
}

// EachBatch calls do with these connections, up to size at a time, in no order and by as many goroutines as there are
// CPUs, until do fails. do keeps nothing of a batch.
func (c *Client) EachBatch(ctx context.Context, q ConnectionQuery, size int, do func([]Connection) error) error {
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(runtime.GOMAXPROCS(0))
	var lines strings.Builder
	n := 0
	read := func() {
		batch := lines.String()
		readers.Go(func() error { return readBatch(batch, size, do) })
		lines = strings.Builder{}
		lines.Grow(len(batch) + len(batch)/8)
		n = 0
	}
	err := c.EachRow(ctx, "/v1/connections", q.Values(), func(row []byte) error {
		lines.Write(row)
		lines.WriteByte('\n')
		if n++; n == size {
			read()
		}
		return nil
	})
	if n > 0 && err == nil {
		read()
	}
	return cmp.Or(readers.Wait(), err)
}

// EachRow gets a path whose answer is a list, an element a line, and calls do for the JSON of each, which is
// overwritten by the next, until do fails.
func (c *Client) EachRow(ctx context.Context, path string, query url.Values, do func(row []byte) error) error {
	response, err := c.open(ctx, http.MethodGet, path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer response.Close()
	lines := scanner(response, chunk)
	for lines.Scan() {
		switch row := bytes.TrimSuffix(lines.Bytes(), []byte(",")); string(row) {
		case "[":
		case "]", "[]":
			_, err := io.Copy(io.Discard, response) // so that the connection can be used again
			return err
		default:
			if err := do(row); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("read portald's answer: %w", cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// EachLine asks a path whose answer is a stream, a line for each element, and calls do for the JSON of each, which is
// overwritten by the next, until do fails or the stream ends. It calls open once the daemon answers, and whenever it
// says that it is busy.
func (c *Client) EachLine(
	ctx context.Context, method, path string, query url.Values, open func(), do func(line []byte) error,
) error {
	response, err := c.openLines(ctx, method, path, query)
	if err != nil {
		return err
	}
	defer response.Close()
	open()
	lines := scanner(response, lineChunk)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			open()
			continue
		}
		if err := do(lines.Bytes()); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return lines.Err()
}

// scanner scans lines, of which so many bytes are read at a time. A part of a line, where an answer breaks off, is
// none.
func scanner(r io.Reader, buffer int) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, buffer), maxRow)
	lines.Split(func(text []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(text, false)
		if n == 0 && atEOF && len(text) > 0 {
			return 0, nil, io.ErrUnexpectedEOF
		}
		return n, line, err
	})
	return lines
}

// lineChunk is what is read of a stream at a time, in bytes: hundreds of streams may be open for a long time.
const lineChunk = 16 << 10

// maxRow bounds an element of a list, in bytes.
const maxRow = 1 << 20

// Records calls do for each record, and gap for those that are missing because the caller was too slow, until one of
// them fails, which is the error then. With Follow the end of the daemon is ErrNotReachable.
func (c *Client) Records(
	ctx context.Context, q RecordQuery, do func(*connlog.Line) error, gap func(Gap) error,
) error {
	return c.ReadRecords(ctx, q, RecordReader{Record: do, Gap: gap})
}

// RecordReader has what is called for parts of an answer, until one of them fails.
type RecordReader struct {
	Record func(*connlog.Line) error
	Gap    func(Gap) error // some are missing because the caller was too slow
	// Reach is called once for each node, with History; nil: the caller does not ask. A daemon that knows no History calls
	// none.
	Reach func(Reach) error
}

// ReadRecords is Records, of files too. A daemon that reads no files, because it is older, answers as without History.
func (c *Client) ReadRecords(ctx context.Context, q RecordQuery, reader RecordReader) error {
	response, err := c.openLines(ctx, http.MethodGet, "/v1/records", q.Values())
	if err != nil {
		return err
	}
	defer response.Close()
	for lines := bufio.NewReaderSize(response, chunk); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF) && len(line) == 0 && !q.Follow:
			return nil
		case err != nil:
			return fmt.Errorf("%w any more: it ended, or closed this stream", ErrNotReachable)
		}
		if len(line) == 1 { // files are being read
			continue
		}
		if err := reader.read(line); err != nil {
			return err
		}
	}
}

// openLines opens a stream. A daemon that reads no files, because it is older, gives what it has in memory.
func (c *Client) openLines(ctx context.Context, method, path string, query url.Values) (io.ReadCloser, error) {
	response, err := c.open(ctx, method, path+"?"+query.Encode(), nil)
	if !query.Has(historyKey) || err == nil || !strings.Contains(err.Error(), noHistory) {
		return response, err
	}
	query = maps.Clone(query)
	query.Del(historyKey)
	return c.open(ctx, method, path+"?"+query.Encode(), nil)
}

// noHistory is in the answer of a daemon that knows no History.
const noHistory = `there is no key "` + historyKey + `"`

// IsOfNode tells whether a line of a stream is about a node, a Reach or a PayloadKept, and not of a connection.
func IsOfNode(line []byte) bool {
	return bytes.HasPrefix(line, []byte(reachMark)) || bytes.HasPrefix(line, []byte(keptMark))
}

func (r *RecordReader) read(line []byte) error {
	var g Gap
	var reach reachLine
	var l connlog.Line
	switch {
	case bytes.HasPrefix(line, []byte(gapMark)):
		return readLine(line, &g, func() error { return r.Gap(g) })
	case bytes.HasPrefix(line, []byte(reachMark)):
		return readLine(line, &reach, func() error {
			if r.Reach == nil || reach.Reach == nil {
				return nil
			}
			return r.Reach(*reach.Reach)
		})
	}
	return readLine(line, &l, func() error { return r.Record(&l) })
}

func readLine(line []byte, into any, do func() error) error {
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("read portald's answer: %w", err)
	}
	return do()
}

// Services returns the service ports that match, in the order of their names.
func (c *Client) Services(ctx context.Context, q ServiceQuery) (all []Service, err error) {
	return all, c.Get(ctx, "/v1/services", q.Values(), &all)
}

// Endpoints returns the endpoints that match, in the order of their service ports.
func (c *Client) Endpoints(ctx context.Context, q EndpointQuery) (all []Endpoint, err error) {
	return all, c.Get(ctx, "/v1/endpoints", q.Values(), &all)
}

// Drain keeps new connections of this node away from an endpoint until Undrain, or until the daemon ends; open ones go
// on. ErrNotFound: no Service has it. The answer says in which service ports that is done, and in which it is refused.
func (c *Client) Drain(ctx context.Context, d Drain) (result DrainResult, err error) {
	return result, c.Post(ctx, "/v1/drain", d, &result)
}

// Undrain ends that.
func (c *Client) Undrain(ctx context.Context, d Drain) (result DrainResult, err error) {
	return result, c.Post(ctx, "/v1/undrain", d, &result)
}

// Cut ends connections and sessions by force. The answer says which of the ids were not found.
func (c *Client) Cut(ctx context.Context, ids ...uint64) (CutResult, error) {
	return c.CutOn(ctx, "", ids...)
}

// CutOn is Cut of connections of a node, as PortaldNode of Connection names it: ids of different nodes may be equal. A
// client of one daemon has no other node than "".
func (c *Client) CutOn(ctx context.Context, node string, ids ...uint64) (result CutResult, err error) {
	return result, c.Post(ctx, "/v1/cut", Cut{IDs: ids, PortaldNode: node}, &result)
}

// SetLogLevel sets the level of the daemon's own log until its next start, or until its configuration changes.
func (c *Client) SetLogLevel(ctx context.Context, level string) error {
	return c.Post(ctx, "/v1/loglevel", Loglevel{level}, &Loglevel{})
}

// Get gets a path, and decodes the answer's JSON.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	return c.exchange(ctx, http.MethodGet, path+"?"+query.Encode(), nil, into)
}

// Copy writes what a path answers to an output, as it is.
func (c *Client) Copy(ctx context.Context, path string, to io.Writer) error {
	response, err := c.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer response.Close()
	if _, err := io.Copy(to, response); err != nil {
		return fmt.Errorf("read portald's answer: %w", err)
	}
	return nil
}

// Post sends JSON to a path, and reads the answer's.
func (c *Client) Post(ctx context.Context, path string, what, into any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	return c.exchange(ctx, http.MethodPost, path, body, into)
}

func (c *Client) exchange(ctx context.Context, method, target string, body []byte, into any) error {
	response, err := c.open(ctx, method, target, body)
	if err != nil {
		return err
	}
	defer response.Close()
	if err := json.NewDecoder(response).Decode(into); err != nil {
		return fmt.Errorf("read portald's answer: %w", err)
	}
	_, _ = io.Copy(io.Discard, response) // so that the connection can be used again
	return nil
}

// open sends a request, and returns the body of the answer, which the caller closes.
func (c *Client) open(ctx context.Context, method, target string, body []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://portald"+target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask portald: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	if err := check(response); err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return response.Body, nil
}

// unreached says why the daemon could not be reached.
func (c *Client) unreached(ctx context.Context, err error) error {
	var why error = err
	if failed, ok := errors.AsType[*url.Error](err); ok {
		why = failed.Err
	}
	_, unconnected := errors.AsType[notConnected](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !c.local:
		return fmt.Errorf("%w at %s: %w", ErrNotReachable, c.where, why)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: only root may ask portald at %s: run this as root, or in portald's pod", ErrPermission,
			c.where)
	case !unconnected: // the daemon closes the connections of other users at once
		return fmt.Errorf("%w at %s (%w): it is stopping, this user is neither root nor the user it runs as, or another "+
			"program listens there (--socket of this command)", ErrNotReachable, c.where, why)
	}
	return fmt.Errorf("%w at %s (%w): it does not run on this node, or listens elsewhere (--admin-socket of the daemon, "+
		"--socket of this command)", ErrNotReachable, c.where, why)
}

// check returns the error that an answer is.
func check(response *http.Response) error {
	if its := response.Header.Get(HeaderVersion); its != Version {
		return fmt.Errorf("%w: it says %q, this command knows %s: use the command portald of the release that runs, such "+
			"as the one in its pod", ErrVersion, its, Version)
	}
	if response.StatusCode == http.StatusOK {
		return nil
	}
	var failure Failure
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	plain := err != nil || json.Unmarshal(text, &failure) != nil || failure.Error == ""
	if plain && response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: the portald that runs does not have %s, which takes a newer release", ErrVersion,
			response.Request.URL.Path)
	}
	if plain {
		return fmt.Errorf("portald answers: %s", response.Status)
	}
	if response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %s", ErrNotFound, failure.Error)
	}
	return errors.New(failure.Error)
}

// Explain returns what this node does for a Service, an address, a pod or a connection, for the client of an address or
// for all (empty), and why. A report that knows nothing has the nearest names.
func (c *Client) Explain(ctx context.Context, what, from string) (report explain.Report, err error) {
	query := url.Values{"what": {what}}
	if from != "" {
		query.Set("from", from)
	}
	return report, c.Get(ctx, "/v1/explain", query, &report)
}

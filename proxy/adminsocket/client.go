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
	socket string
	http   http.Client
}

// NewClient returns a client of the daemon at a socket; empty: DefaultSocket. It does not connect yet: Info tells
// whether the daemon is there.
func NewClient(socket string) *Client {
	c := &Client{socket: cmp.Or(socket, DefaultSocket)}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			connection, err := dial(ctx, c.socket)
			if err != nil {
				return nil, notConnected{err}
			}
			return connection, nil
		},
		DisableCompression: true,
	}
	return c
}

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
	lines := bufio.NewScanner(response)
	lines.Buffer(make([]byte, chunk), maxRow)
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

// maxRow bounds an element of a list, in bytes.
const maxRow = 1 << 20

// Records calls do for each record, and gap for those that are missing because the caller was too slow, until one of
// them fails, which is the error then. With Follow the end of the daemon is ErrNotReachable.
func (c *Client) Records(
	ctx context.Context, q RecordQuery, do func(*connlog.Line) error, gap func(Gap) error,
) error {
	response, err := c.open(ctx, http.MethodGet, "/v1/records?"+q.Values().Encode(), nil)
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
		if err := readRecord(line, do, gap); err != nil {
			return err
		}
	}
}

func readRecord(line []byte, do func(*connlog.Line) error, gap func(Gap) error) error {
	if bytes.HasPrefix(line, []byte(gapMark)) {
		var g Gap
		if err := json.Unmarshal(line, &g); err != nil {
			return fmt.Errorf("read portald's answer: %w", err)
		}
		return gap(g)
	}
	var l connlog.Line
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("read portald's answer: %w", err)
	}
	return do(&l)
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
func (c *Client) Cut(ctx context.Context, ids ...uint64) (result CutResult, err error) {
	return result, c.Post(ctx, "/v1/cut", Cut{ids}, &result)
}

// SetLogLevel sets the level of the daemon's own log until its next start, or until its configuration changes.
func (c *Client) SetLogLevel(ctx context.Context, level string) error {
	return c.Post(ctx, "/v1/loglevel", Loglevel{level}, &Loglevel{})
}

// Get gets a path, and decodes the answer's JSON.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	return c.exchange(ctx, http.MethodGet, path+"?"+query.Encode(), nil, into)
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
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: only root may ask portald at %s: run this as root, or in portald's pod", ErrPermission,
			c.socket)
	case !unconnected: // the daemon closes the connections of other users at once
		return fmt.Errorf("%w at %s (%w): it is stopping, this user is neither root nor the user it runs as, or another "+
			"program listens there (--socket of this command)", ErrNotReachable, c.socket, why)
	}
	return fmt.Errorf("%w at %s (%w): it does not run on this node, or listens elsewhere (--admin-socket of the daemon, "+
		"--socket of this command)", ErrNotReachable, c.socket, why)
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

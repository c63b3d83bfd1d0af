//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
)

// handlerPath is where admin servers have the handler of package bgraph.
const handlerPath = "/debug/bgraph/"

// A urlSource is a program that answers HTTP requests with its graph.
type urlSource struct {
	name    string
	places  []*url.URL // where the handler may be, the likeliest first; the one that answered alone, later
	client  *http.Client
	clock   clock
	timeout time.Duration
}

// newURLSource makes a source of the handler at u; if u is but the address of a
// server, the handler is looked for in its usual place first.
func newURLSource(u *url.URL, c clock, timeout time.Duration) *urlSource {
	given := *u
	query := given.Query()
	query.Set("format", "dump")
	given.RawQuery = query.Encode()
	places := []*url.URL{&given}
	if u.Path == "" || u.Path == "/" {
		usual := given
		usual.Path = handlerPath
		places = []*url.URL{&usual, &given}
	}
	return &urlSource{name: u.Redacted(), places: places, clock: c, timeout: timeout,
		client: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}}
}

func (u *urlSource) Name() string { return printable(u.name) }

func (u *urlSource) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	ctx, cancel := withTimeout(ctx, u.clock, u.timeout)
	defer cancel()
	var failed []string
	for i, place := range u.places {
		s, err := u.get(ctx, place)
		if err == nil {
			u.places = u.places[i : i+1]
			return s, nil
		}
		var answer badAnswer
		if !errors.As(err, &answer) {
			return nil, fmt.Errorf("%s: %w", u.Name(), err)
		}
		failed = append(failed, fmt.Sprintf("%s: %v", printable(place.Redacted()), err))
	}
	return nil, errors.New(strings.Join(failed, "\n"))
}

// A badAnswer is one that is not a dump.
type badAnswer struct{ error }

func (e badAnswer) Unwrap() error { return e.error }

func (u *urlSource) get(ctx context.Context, place *url.URL) (*bgraph.Snapshot, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "bgdump")
	resp, err := u.client.Do(req)
	if err != nil {
		return nil, requestError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, badAnswer{fmt.Errorf("the answer is %s%s", printable(resp.Status), firstLine(resp))}
	}
	body := &countingReader{r: resp.Body}
	s, err := bgraph.Decode(body)
	if err == nil {
		return s, nil
	}
	if body.err != nil && !errors.Is(body.err, io.EOF) {
		return nil, requestError(ctx, body.err)
	}
	if kind := mediaType(resp); kind != "" && strings.HasPrefix(kind, "text/html") {
		return nil, badAnswer{errors.New("the answer is a web page, not a dump; want the address of bgraph's handler")}
	}
	return nil, badAnswer{err}
}

// A countingReader remembers the error of the reader that it reads from.
type countingReader struct {
	r   io.Reader
	err error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil {
		c.err = err
	}
	return n, err
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// firstLine is how a server explains a status, if it does so in plain text.
func firstLine(resp *http.Response) string {
	if mediaType(resp) != "text/plain" {
		return ""
	}
	head, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	line, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	if len(line) == 0 {
		return ""
	}
	return ": " + clip(printable(string(line)), 200)
}

// requestError says in plain words why there was no answer.
func requestError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // the source is named by the caller
	}
	var name *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("nobody listens there (connection refused); does the program run, with its admin address on?")
	case errors.As(err, &name):
		return fmt.Errorf("the name %s is not known: %w", printable(name.Name), err)
	}
	return err
}

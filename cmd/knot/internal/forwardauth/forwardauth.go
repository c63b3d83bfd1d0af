// Package forwardauth asks another server whether requests may pass, as the tables [[site.forward-auth]] of command knot say.
package forwardauth

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
	"github.com/capriccio-go/capriccio/task"
)

const (
	// Most is how many tables a site may have.
	Most = 100
	// mostBody is how long the body of an answer may be, in bytes: that of a page to log in, and of its style.
	mostBody = 256 << 10
	// defaultTimeout is how long an answer may take.
	defaultTimeout = 5 * time.Second
)

// A Config is a table [[site.forward-auth]].
type Config struct {
	// Match is a pattern of paths; "": every path.
	Match string `toml:"match"`
	// To are backends, see proxy.Config.Backends.
	To []string `toml:"to"`
	// Path is what is asked for, with a query or without; "": "/".
	Path string `toml:"path"`
	// Host of the requests; "": the address of the backend.
	Host string `toml:"host"`
	// Pass has the names of header lines of the client that the backend gets; none: defaultPass.
	Pass []string `toml:"pass"`
	// Copy has the names of header lines of an answer that the request gets on its way to a backend.
	Copy []string `toml:"copy"`
	// SetCookie has Set-Cookie of an answer that lets the request pass sent to the client.
	SetCookie bool `toml:"set-cookie"`
	// Timeout of an answer, "5s" say; "": defaultTimeout.
	Timeout string `toml:"timeout"`
	// CA is a PEM file with the authorities of backends with https; "": those of the system.
	CA string `toml:"ca"`
	// ServerName is the name in their certificates; "": the host of the address.
	ServerName string `toml:"server-name"`
}

var defaultPass = []string{"Authorization", "Cookie", "Accept", "X-Requested-With"}

// always are lines that the proxy needs besides Pass: whether the client's words about the others count, and whether a proxy before
// this server is to be believed, is decided there.
var always = []string{"Connection", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// A rule is a Config that was read.
type rule struct {
	match   site.Pattern
	path    string
	pass    []string
	copy    []string
	cookies bool
	backend *proxy.Proxy
}

// Rules are those of a site. They are fixed.
type Rules struct {
	all   []*rule
	names []string // of all lines that are copied
}

// New reads the tables of a site. open makes the Proxy that asks the backends of the table with that index, with the time for
// an answer. wrong has what is wrong with each table, by its index.
func New(tables []Config, open func(i int, timeout time.Duration) (*proxy.Proxy, []site.Fault)) (rs *Rules, wrong map[int][]site.Fault) {
	rs = new(Rules)
	wrong = site.ReadTables(len(tables), Most, "to", "tables of forward-auth", func(i int) []site.Fault {
		r, timeout, faults := read(&tables[i])
		backend, more := open(i, timeout)
		r.backend = backend
		rs.all, rs.names = append(rs.all, r), append(rs.names, r.copy...)
		return append(faults, more...)
	})
	return rs, wrong
}

// read reads a table.
func read(c *Config) (r *rule, timeout time.Duration, wrong []site.Fault) {
	r = &rule{path: cmp.Or(c.Path, "/"), pass: c.Pass, copy: c.Copy, cookies: c.SetCookie}
	note := site.NoteIn(&wrong)
	var err error
	r.match, err = site.OptionalPattern(c.Match)
	note("match", err)
	if r.path[0] != '/' || strings.ContainsFunc(r.path, func(ch rune) bool { return ch <= ' ' || ch >= 0x7f || ch == '#' }) {
		note("path", fmt.Errorf("%q is not a path; want one like /verify", c.Path))
	}
	if c.Pass == nil {
		r.pass = defaultPass
	}
	note("pass", checkNames(c.Pass))
	note("copy", checkNames(c.Copy))
	for _, name := range c.Copy {
		if contains(r.pass, name) {
			note("copy", fmt.Errorf("%s of a client is taken out of its request, and pass has it too; want a list pass without it", name))
		}
	}
	if timeout = defaultTimeout; c.Timeout != "" {
		if timeout, err = time.ParseDuration(c.Timeout); err != nil || timeout <= 0 {
			note("timeout", fmt.Errorf("%q is not a time; want one like \"5s\"", c.Timeout))
		}
	}
	return r, timeout, wrong
}

// checkNames reports what is wrong with names of header lines.
func checkNames(names []string) error {
	for _, name := range names {
		if err := proxy.CheckHeader(name, ""); err != nil {
			return err
		}
	}
	return nil
}

func contains(names []string, name string) bool {
	return slices.ContainsFunc(names, func(one string) bool { return strings.EqualFold(one, name) })
}

// Strip takes what clients have written under the names that are copied out of a request, whether or not a rule is for it. It is a
// site.Step.
func (rs *Rules) Strip(x *knot.Ctx) (bool, error) {
	for _, name := range rs.names {
		innerOf(x).PassHeader(name, "")
	}
	return false, nil
}

// Find implements site.Guard.
func (rs *Rules) Find(_ *knot.Ctx, path []byte) int {
	return slices.IndexFunc(rs.all, func(r *rule) bool { return r.match.MatchBytes(path) })
}

// Admit implements site.Guard: the request passes if the answer has a status of 200 to 299.
func (rs *Rules) Admit(x *knot.Ctx, i int) error {
	r := rs.all[i]
	a, err := r.ask(x)
	if err != nil {
		return err
	}
	if a.status/100 != 2 {
		return &site.Refusal{Status: knot.Status(a.status), Send: a.send}
	}
	for _, name := range r.copy {
		innerOf(x).PassHeader(name, strings.Join(a.values(name), ", "))
	}
	if r.cookies {
		for _, cookie := range a.values("Set-Cookie") {
			x.AddHeader("Set-Cookie", cookie)
		}
	}
	return nil
}

// ask asks the backend about a request.
func (r *rule) ask(x *knot.Ctx) (*answer, error) {
	head := append([]byte("GET "+r.path+" HTTP/1.1\r\nHost: "), x.HostBytes()...)
	head = append(head, "\r\n"...)
	x.EachHeader(func(name, value []byte) bool {
		if contains(r.pass, string(name)) || contains(always, string(name)) {
			head = append(append(append(append(head, name...), ": "...), value...), "\r\n"...)
		}
		return true
	})
	method, target := x.Method(), targetOf(x)
	a := &answer{over: task.NewChan[struct{}](1)}
	stop := innerOf(x).Fetch(append(head, "\r\n"...), func(y *knot.Ctx) error {
		innerOf(y).PassHeader("X-Forwarded-Method", method)
		innerOf(y).PassHeader("X-Forwarded-Uri", target)
		return r.backend.Handle(y)
	}, a)
	var watch peerwatch.Watch
	var gone atomic.Bool
	innerOf(x).WhenGone(&watch, func() {
		gone.Store(true)
		stop()
	})
	defer watch.Stop()
	if _, err := a.over.Recv(); err != nil {
		stop()
		return nil, err
	}
	if a.err != nil && gone.Load() {
		return nil, knot.Status(ownctx.StatusGone) // no failure of the server
	}
	return a, a.err
}

// targetOf is the path and query as a backend gets them: without segments of dots, by which this server does not go either.
func targetOf(x *knot.Ctx) string {
	path := string(x.RawPath())
	clean, err := url.PathUnescape(path)
	if err != nil || slices.ContainsFunc(strings.Split(clean, "/"), func(s string) bool { return s == "." || s == ".." }) {
		path = (&url.URL{Path: x.Path()}).EscapedPath()
	}
	if query := x.Query(); query != "" {
		path += "?" + query
	}
	return path
}

// An answer is what the backend has said. It is an ownctx.Receiver.
type answer struct {
	status int
	header []knot.Header
	body   []byte
	err    error                // why it is not whole
	over   *task.Chan[struct{}] // gets one value at the end
}

var errTooLong = fmt.Errorf("the answer of forward-auth has more than %d bytes: %w", mostBody, knot.Status(502))

// Head implements ownctx.Receiver.
func (a *answer) Head(status int, _ int64, each func(func(name, value []byte) bool)) error {
	a.status = status
	each(func(name, value []byte) bool {
		a.header = append(a.header, knot.Header{Name: string(name), Value: string(value)})
		return true
	})
	return nil
}

// Body implements ownctx.Receiver.
func (a *answer) Body(piece []byte) error {
	if len(a.body)+len(piece) > mostBody {
		return errTooLong
	}
	a.body = append(a.body, piece...)
	return nil
}

// End implements ownctx.Receiver.
func (a *answer) End(err error) {
	a.err = err
	a.over.TrySend(struct{}{})
}

// values are those of all lines with that name.
func (a *answer) values(name string) (all []string) {
	for _, h := range a.header {
		if strings.EqualFold(h.Name, name) {
			all = append(all, h.Value)
		}
	}
	return all
}

// send answers with what the backend has said.
func (a *answer) send(x *knot.Ctx) error {
	x.SetStatus(a.status)
	for _, h := range a.header {
		innerOf(x).CopyHeader([]byte(h.Name), []byte(h.Value))
	}
	x.SetContentLength(int64(len(a.body)))
	if len(a.body) == 0 {
		return nil
	}
	_, err := x.Write(a.body)
	return err
}

// inner has the methods of a *knot.Ctx that programs do not need, see internal/ownctx.
type inner interface {
	WhenGone(w *peerwatch.Watch, fn func())
	CopyHeader(name, value []byte)
	PassHeader(name, value string)
	Fetch(head []byte, h knot.Handler, to ownctx.Receiver) (stop func())
}

func innerOf(x *knot.Ctx) inner { return ownctx.Of(x).(inner) }

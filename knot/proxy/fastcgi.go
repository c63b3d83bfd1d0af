package proxy

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// fastCGI is FastCGI 1.0, one request at a time on a connection.
type fastCGI struct {
	FastCGI
	set []string // names of Set, in order
}

// Types of records, and what a record is.
const (
	fcgiBegin  = 1
	fcgiEnd    = 3
	fcgiParams = 4
	fcgiStdin  = 5
	fcgiStdout = 6
	fcgiStderr = 7

	fcgiResponder = 1
	fcgiKeepConn  = 1

	fcgiHeader = 8
	// fcgiMost is the most content that we put into a record, in bytes.
	fcgiMost = 65528
	// stderrMost is how much a program may say for the log, for one request, in bytes.
	stderrMost = 4 << 10
)

// records is the state of reading the records of a response.
type records struct {
	kind      byte
	left, pad int    // bytes of content and of padding still to come
	last      []byte // content of fcgiEnd
	over      bool   // fcgiEnd has come
	status    byte   // the protocol status that it gave
	head      []byte // output of the program until its head is whole
	rest      []byte // ... what came with it
	announced int64  // bytes of the body that its Content-Length leaves; -1: it has none
	cut       bool   // there were more
	stderr    []byte
}

// begun reports whether a record has come.
func (r *records) begun() bool { return r.kind != 0 }

func newFastCGI(f FastCGI) (wire, error) {
	f.Index, f.Split = cmp.Or(f.Index, "index.php"), cmp.Or(f.Split, ".php")
	if f.Root == "" || f.Root[0] != '/' {
		return nil, fmt.Errorf("root of FastCGI: %q is not the absolute path of the folder of the scripts", f.Root)
	}
	if strings.Contains(f.Index, "/") {
		return nil, fmt.Errorf("index of FastCGI: %q is not the name of a script", f.Index)
	}
	f.Root = strings.TrimRight(f.Root, "/")
	return &fastCGI{f, slices.Sorted(maps.Keys(f.Set))}, nil
}

func appendRecord(out []byte, kind byte, content []byte) []byte {
	return append(append(out, 1, kind, 0, 1, byte(len(content)>>8), byte(len(content)), 0, 0), content...)
}

// appendStream appends content as records, and the empty one that ends it if that is all.
func appendStream(out []byte, kind byte, content []byte, ends bool) []byte {
	for len(content) > 0 {
		n := min(len(content), fcgiMost)
		out = appendRecord(out, kind, content[:n])
		content = content[n:]
	}
	if ends {
		out = appendRecord(out, kind, nil)
	}
	return out
}

func appendParam(b []byte, name, value string) []byte {
	for _, n := range [2]int{len(name), len(value)} {
		if n < 128 {
			b = append(b, byte(n))
		} else {
			b = binary.BigEndian.AppendUint32(b, uint32(n)|1<<31)
		}
	}
	return append(append(b, name...), value...)
}

// prepare implements wire: it finds the script and the length of the body, which programs get before the body.
func (f *fastCGI) prepare(e *exchange) error {
	e.scriptPath = e.x.Path()
	if s := e.p.Strip; s != "" && strings.HasPrefix(e.scriptPath, s) && (len(e.scriptPath) == len(s) || e.scriptPath[len(s)] == '/') {
		e.scriptPath = cmp.Or(e.scriptPath[len(s):], "/")
	}
	if e.script, e.info = f.script(e.scriptPath); !f.AnyScript && f.isMissing(e.script) {
		return knot.Status(404)
	}
	if !e.ready && e.x.ContentLength() < 0 {
		return e.spool()
	}
	return nil
}

// request implements wire.
func (f *fastCGI) request(e *exchange, body []byte, ready bool) {
	length := int64(len(body))
	switch {
	case e.file != nil:
		length = e.fileSize
	case !ready:
		length = e.x.ContentLength()
	}
	params := f.params(make([]byte, 0, 1<<10), e, length)
	flags := byte(0)
	if e.p.keeps() {
		flags = fcgiKeepConn
	}
	e.out = appendRecord(e.out, fcgiBegin, []byte{0, fcgiResponder, flags, 0, 0, 0, 0, 0})
	e.out = appendStream(e.out, fcgiParams, params, true)
	if ready {
		e.out = appendStream(e.out, fcgiStdin, body, true)
	}
}

// askedURI is path and query of a target, whatever the request was rewritten to. A path with segments of dots is clean, see path.
func askedURI(target string) string {
	if scheme := strings.Index(target, "://"); scheme > 0 && target[0] != '/' { // it has the host in front
		target = target[scheme+len("://"):]
		target = target[min(len(target), strings.IndexAny(target+"/", "/?")):]
		if target == "" || target[0] == '?' {
			target = "/" + target
		}
	}
	path, query, has := strings.Cut(target, "?")
	if hasDots([]byte(path)) {
		clean, _, _ := h1.CleanPath([]byte(path), nil)
		path = string(h1.AppendEscaped(nil, clean))
	}
	if has && query != "" {
		path += "?" + query
	}
	return path
}

// script splits a path into the name of a script and what follows it. Other paths are for the index: that of the folder, if it
// has one, else that of the root. It may park.
func (f *fastCGI) script(path string) (name, info string) {
	for at := 0; ; {
		i := strings.Index(path[at:], f.Split)
		if i < 0 {
			break
		}
		if at += i + len(f.Split); at == len(path) || path[at] == '/' {
			return path[:at], path[at:]
		}
	}
	if path == "/" || strings.HasSuffix(path, "/") && !f.isMissing(path+f.Index) {
		return path + f.Index, ""
	}
	return "/" + f.Index, "" // which finds the path in REQUEST_URI
}

// isMissing reports whether there is no script of that name for certain. A root that is not on this machine, or is an empty
// folder here, is the program's own and tells nothing.
func (f *fastCGI) isMissing(name string) bool {
	info, err := aio.Stat(f.Root + name)
	if err == nil && info.Mode().IsRegular() {
		return false
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ENAMETOOLONG) {
		return false
	}
	root, err := aio.Open(f.Root + "/")
	if err != nil {
		return false
	}
	defer root.Close()
	entries, _ := root.ReadDir(1)
	return len(entries) > 0
}

// server is what a program is told of this side of the connection: the name that the request is for, an IPv6 address in
// brackets; the address, "" for that of a unix socket; and the port.
func server(x *knot.Ctx, host string) (name, addr, port string) {
	port = "80"
	if x.TLS() != nil {
		port = "443"
	}
	if local := x.LocalAddr(); local != nil {
		if h, p, err := net.SplitHostPort(local.String()); err == nil {
			addr, port = h, p
		}
	}
	name = host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name = host[:i]
	}
	if name == "" {
		name = cmp.Or(addr, "localhost")
		if strings.Contains(name, ":") {
			name, _, _ = strings.Cut(name, "%")
			name = "[" + name + "]"
		}
	}
	return name, addr, port
}

// params appends the parameters of the request, as the CGI has them (RFC 3875) and more that programs look for. length is that of
// the body.
func (f *fastCGI) params(b []byte, e *exchange, length int64) []byte {
	x := e.x
	add := func(name, value string) { b = appendParam(b, name, value) }
	add("GATEWAY_INTERFACE", "CGI/1.1")
	add("SERVER_SOFTWARE", "knot")
	add("SERVER_PROTOCOL", x.Proto())
	add("REQUEST_METHOD", e.method)
	add("REQUEST_URI", askedURI(x.Target())) // with Strip: programs compare it with SCRIPT_NAME themselves
	add("QUERY_STRING", x.Query())
	add("DOCUMENT_ROOT", f.Root)
	add("DOCUMENT_URI", e.scriptPath)
	add("SCRIPT_NAME", e.script)
	add("SCRIPT_FILENAME", f.Root+e.script)
	if e.info != "" {
		add("PATH_INFO", e.info)
		add("PATH_TRANSLATED", f.Root+e.info)
	}
	add("REDIRECT_STATUS", "200") // PHP wants to see that a server calls it
	host, scheme := x.Host(), e.scheme()
	if scheme == "https" {
		add("HTTPS", "on")
	}
	add("REQUEST_SCHEME", scheme)
	name, addr, port := server(x, host)
	add("SERVER_NAME", name)
	add("SERVER_PORT", port)
	if addr != "" {
		add("SERVER_ADDR", addr)
	}
	remote := "" // which is as good as none (RFC 3875, 4.1), but programs look for the name
	if client := x.ClientAddr(); client.IsValid() {
		remote = client.String()
	}
	add("REMOTE_ADDR", remote)
	if from := x.RemoteAddr(); from != nil && !e.trusted {
		if _, p, err := net.SplitHostPort(from.String()); err == nil {
			add("REMOTE_PORT", p)
		}
	}
	if user := x.User(); user != "" {
		add("REMOTE_USER", user)
		add("AUTH_TYPE", "Basic")
	}
	if length > 0 || e.method == "POST" || e.method == "PUT" || e.method == "PATCH" {
		add("CONTENT_LENGTH", strconv.FormatInt(length, 10))
	}
	kind := x.Header("Content-Type")
	for _, l := range e.lines {
		if strings.EqualFold(l.Name, "Content-Type") {
			kind = l.Value
		}
	}
	if kind != "" {
		add("CONTENT_TYPE", kind)
	}
	if host != "" || e.p.Host != "" {
		add("HTTP_HOST", e.host())
	}
	b = f.headerParams(b, e)
	for _, name := range f.set {
		add(name, f.Set[name])
	}
	return b
}

// headerParams adds the lines of the header as HTTP_NAME.
func (f *fastCGI) headerParams(b []byte, e *exchange) []byte {
	named := connectionNames(e.x.EachHeader)
	var seen []string
	e.x.EachHeader(func(name, _ []byte) bool {
		if !e.passes(name) || contains(named, name) || h1.TextIs(name, "host") || h1.TextIs(name, "expect") || h1.TextIs(name, "content-length") || h1.TextIs(name, "content-type") {
			return true
		}
		key := "HTTP_" + strings.ToUpper(strings.ReplaceAll(string(name), "-", "_"))
		if slices.Contains(seen, key) {
			return true
		}
		seen = append(seen, key)
		b = appendParam(b, key, string(joinLines(e.x, strings.ToLower(string(name)))))
		return true
	})
	for _, l := range e.lines {
		if l.Value != "" && !strings.EqualFold(l.Name, "Content-Type") {
			b = appendParam(b, "HTTP_"+strings.ToUpper(strings.ReplaceAll(l.Name, "-", "_")), l.Value)
		}
	}
	for _, l := range e.demandLines() {
		b = appendParam(b, "HTTP_"+strings.ToUpper(strings.ReplaceAll(l.Name, "-", "_")), l.Value)
	}
	return b
}

// frame implements wire.
func (*fastCGI) frame(_ *exchange, out, piece []byte) []byte {
	return appendStream(out, fcgiStdin, piece, false)
}

// finish implements wire.
func (*fastCGI) finish(_ *exchange, out, _ []byte) []byte {
	return appendStream(out, fcgiStdin, nil, true)
}

var (
	errNoRecord  = errors.New("it sends what is no record of FastCGI")
	errNoAnswer  = errors.New("the program has ended without a response")
	errRefusedBy = errors.New("the program refuses the request")
)

// take takes the next piece of output from b; io.EOF: the request has ended.
func (r *records) take(b []byte) (piece []byte, used int, err error) {
	for {
		rest := b[used:]
		switch {
		case r.left > 0:
			n := min(r.left, len(rest))
			r.left -= n
			used += n
			switch part := rest[:n]; r.kind {
			case fcgiStdout:
				if n > 0 {
					return part, used, nil
				}
			case fcgiStderr:
				r.stderr = append(r.stderr, part[:min(n, stderrMost-len(r.stderr))]...)
			case fcgiEnd:
				r.last = append(r.last, part...)
			}
			if r.left > 0 {
				return nil, used, nil
			}
		case r.pad > 0:
			n := min(r.pad, len(rest))
			r.pad -= n
			if used += n; r.pad > 0 {
				return nil, used, nil
			}
		case r.kind == fcgiEnd:
			r.over, r.status = true, r.last[4]
			if r.status != 0 {
				return nil, used, fmt.Errorf("%w (protocol status %d)", errRefusedBy, r.status)
			}
			return nil, used, io.EOF
		case len(rest) < fcgiHeader:
			return nil, used, nil
		default:
			r.kind, r.left, r.pad = rest[1], int(rest[4])<<8|int(rest[5]), int(rest[6])
			used += fcgiHeader
			ok := r.kind == fcgiStdout || r.kind == fcgiStderr || r.kind == fcgiEnd && r.left == 8
			if rest[0] != 1 || rest[2] != 0 || rest[3] != 1 || !ok {
				return nil, used, errNoRecord
			}
		}
	}
}

// head implements wire.
func (f *fastCGI) head(e *exchange) (bool, error) {
	r := &e.rec
	for {
		piece, used, err := r.take(e.in[e.r:e.w])
		e.r += used
		if len(piece) > 0 {
			r.head = append(r.head, piece...)
			e.head = r.head
			whole, err := e.res.ParseCGI(r.head)
			if whole {
				r.announced = e.res.Length()
				r.rest = r.withinLength(r.head[e.res.Size:])
				e.res.Size = 0 // it is out of e.in already
			}
			if whole || err != nil {
				return whole, err
			}
			continue
		}
		switch {
		case err == io.EOF:
			return false, errNoAnswer
		case err != nil || used == 0:
			return false, err
		}
	}
}

// next implements wire.
func (f *fastCGI) next(e *exchange) (piece []byte, used int, err error) {
	if rest := e.rec.rest; len(rest) > 0 {
		e.rec.rest = nil
		return rest, 0, nil
	}
	piece, used, err = e.rec.take(e.in[e.r:e.w])
	return e.rec.withinLength(piece), used, err
}

// withinLength returns what of piece is within the announced length.
func (r *records) withinLength(piece []byte) []byte {
	if r.announced < 0 {
		return piece
	}
	if int64(len(piece)) > r.announced {
		r.cut, piece = true, piece[:r.announced]
	}
	r.announced -= int64(len(piece))
	return piece
}

// ended implements wire: a body ends with a record, not with the connection.
func (*fastCGI) ended(*exchange) error { return io.ErrUnexpectedEOF }

// reusable implements wire.
func (*fastCGI) reusable(e *exchange) bool { return e.rec.over && e.rec.status == 0 }

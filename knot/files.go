package knot

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/knot/internal/clock"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

const allowFiles = "GET, HEAD, OPTIONS"

// Defaults of FilesConfig.
const (
	DefaultCacheBytes   = 64 << 20
	DefaultCacheFileMax = 64 << 10
	DefaultRevalidate   = time.Second
)

// FilesConfig says what a Files keeps in memory. A zero field means its default.
type FilesConfig struct {
	// CacheBytes is how much memory contents of files may take, with what is noted about
	// them. Negative: none is kept. They are not on the Go heap, and take memory as they
	// come in; the address space is reserved at once.
	CacheBytes int64
	// CacheFileMax is the size in bytes up to which contents are kept. Larger files are
	// sent out of the kernel's page cache, without the copy that is dearer for them than two
	// more system calls.
	CacheFileMax int64
	// OpenFiles is how many other files are kept open at most, for up to 20 s without a
	// request. Default: one in 64 of the descriptors that the process may have
	// (getrlimit(2)), 16 to 4096. Negative: none.
	OpenFiles int
	// Revalidate is for how long what is kept is used before it is compared again with
	// what is on disk, which costs three system calls, and as many for the root. Negative:
	// it is compared at every request.
	Revalidate time.Duration

	// Index are the names of the file that a folder is shown by, the first that is there.
	// Default: index.html.
	Index []string
	// MaxRanges is how many ranges a response has at most; a request for more gets the whole
	// file. Default: 16. Negative: one.
	MaxRanges int
	// Codings are those in which files are sent to clients that accept them, best first; at
	// most 8. A client gets the best one of which a file stands beside the one that it asks
	// for and is smaller and not older (by 10 s or more), or else one that is made on the fly
	// and kept with the contents of files, if the type of the file is one that gets
	// smaller. While others are being made, or if there is no room in the cache, it gets
	// the file as it is.
	Codings []Coding
	// CompressMin and CompressMax are the sizes of files, in bytes, that are compressed on the
	// fly. Default: 512 and 4 MiB. Negative: any.
	CompressMin, CompressMax int64
	// Header, if set, returns header lines that the responses 200, 206 and 304 about a file
	// carry, in place of those with the same names that AddHeader has added; a Content-Type
	// replaces that of the file. name is its path below the root, with a
	// leading slash; for a folder that of its index. It is called when a file is opened, may
	// be called by several at a time, and must not park. Lines that CheckHeader refuses are
	// dropped.
	Header func(name string) []Header
}

// Header is a line of a header.
type Header struct{ Name, Value string }

// CheckHeader reports what is wrong with a header line that AddHeader or FilesConfig.Header are to
// add: the name is not a token, or one that the server sets itself, or the value has control bytes.
func CheckHeader(name, value string) error {
	b := h1.Bytes(name)
	if !h1.IsToken(name) {
		return fmt.Errorf("knot: header name %q is not a token", name)
	}
	for _, own := range ownHeaders {
		if h1.TokenIs(b, own) {
			return fmt.Errorf("knot: header %s is set by the server", name)
		}
	}
	if h1.IndexControl(h1.Bytes(value), 0) < len(value) {
		return fmt.Errorf("knot: the value of header %s has control bytes", name)
	}
	return nil
}

// Files serves the files below one directory.
//
// What it never serves: anything outside the root, whatever the path or the
// links say; names that begin with a dot (404; .well-known is the exception);
// anything but regular files (403). Directories are served by their
// index.html and redirected to their trailing slash; there is no listing.
//
// Symbolic links: on Linux 5.6 and later links are followed as long as they
// stay below the root the whole way, so absolute ones are not (403), and lead to
// nothing whose own name, or that of a folder it is in, begins with a dot (404). That
// needs proc(5) at /proc; without it, and on older kernels, no link is followed. The
// root itself may be a link to anywhere.
//
// Contents of small files are kept in memory, other files are kept open, as
// FilesConfig says. A file that was changed, replaced, deleted or forbidden is
// served as it was until it is compared again, in part never: what is being sent
// goes on being sent. A file that is changed in place while it is sent from disk
// may arrive mixed; replace files by renaming, as always.
//
// File I/O: names and contents in the kernel's caches are used on the loop,
// anything that would have to wait for a disk is done elsewhere while the task
// is parked.
type Files struct {
	root       fileRoot
	walks      bool                  // no openat2: walk the path; fixed
	index      []string              // fixed
	maxRanges  int                   // fixed
	codings    codings               // fixed
	header     func(string) []Header // fixed
	cached     bool                  // the kernel has RESOLVE_CACHED; fixed
	fileMax    int64
	revalidate int64        // nanoseconds, 0: at every request; fixed
	now        func() int64 // nanoseconds on some scale, never 0; fixed
	caches     *fileCache   // nil if nothing is kept; fixed
	clock      clock.Clock

	mu      sync.Mutex
	sweeper *time.Timer // guarded by mu
	sweeps  bool        // sweeper is set; guarded by mu
	closed  bool        // guarded by mu
}

// OpenFiles opens the root with the defaults of FilesConfig. It fails if root is
// not a directory, or one in which nothing can be opened. The name is looked up again,
// as often as files are compared with what is on disk: if it is a link that was switched,
// or another directory has taken its place, that is served from then on; if it leads
// nowhere, the directory that it was, and the error log of the server says so.
func OpenFiles(root string) (*Files, error) { return OpenFilesWith(root, FilesConfig{}) }

// OpenFilesWith is OpenFiles with caches as config says.
func OpenFilesWith(root string, config FilesConfig) (*Files, error) {
	f := new(Files)
	if err := f.root.open(root); err != nil {
		return nil, errors.Join(err, checkIndex(config.Index))
	}
	f.probe()
	if err := f.configure(config); err != nil {
		unix.Close(f.root.fd)
		return nil, err
	}
	f.root.checked.Store(f.now())
	// Package mime reads the system's tables at the first use: not in a task.
	mime.TypeByExtension(".knot")
	return f, nil
}

func (f *Files) configure(config FilesConfig) (err error) {
	bytes := orDefault(config.CacheBytes, DefaultCacheBytes, 0)
	files := orDefault(config.OpenFiles, defaultOpenFiles(), 0)
	f.revalidate = int64(orDefault(config.Revalidate, DefaultRevalidate, 0))
	f.fileMax = orDefault(config.CacheFileMax, DefaultCacheFileMax, -1)
	f.maxRanges = orDefault(config.MaxRanges, defaultMaxRanges, 1)
	f.header = config.Header
	if f.index = config.Index; len(f.index) == 0 {
		f.index = []string{"index.html"}
	}
	if err := checkIndex(f.index); err != nil {
		return err
	}
	if err := f.configureCodings(&config); err != nil {
		return err
	}
	if bytes == 0 {
		f.fileMax = -1
	}
	if bytes > 0 || files > 0 {
		if f.caches, err = newFileCache(bytes, max(f.fileMax, 0), files); err != nil {
			return err
		}
	}
	f.now = f.clock.Now
	if f.revalidate < int64(10*clock.Tick) { // too fine for the coarse clock
		base := time.Now().Add(-1)
		f.now = func() int64 { return int64(time.Since(base)) }
	}
	return nil
}

// checkIndex returns an error about the first name that can't be the index of a folder.
func checkIndex(names []string) error {
	for _, name := range names {
		if name == "" || hiddenPath(append([]byte("/"), name...)) || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("knot: %q can't be the index of a folder; want the name of a file in it", name)
		}
	}
	return nil
}

func defaultOpenFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 16
	}
	return int(max(16, min(limit.Cur/64, 4096)))
}

// Close closes the root and what is kept open. Call it after the server has shut
// down.
func (f *Files) Close() error {
	f.mu.Lock()
	f.closed = true
	if f.sweeper != nil {
		f.sweeper.Stop()
	}
	f.mu.Unlock()
	f.clock.Close()
	if f.caches != nil {
		f.caches.close()
	}
	return unix.Close(f.root.fd)
}

// Stats returns the counters of the caches. Safe from anywhere.
func (f *Files) Stats() FilesStats {
	if f.caches == nil {
		return FilesStats{}
	}
	return f.caches.stats()
}

const (
	// openIdle is for how long a descriptor is kept that nobody asks for: it keeps the
	// space of a deleted file taken.
	openIdle   = 20 * time.Second
	sweepEvery = openIdle / 2
)

// sweepLater makes sure that idle descriptors get closed.
func (f *Files) sweepLater() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sweeps || f.closed {
		return
	}
	f.sweeps = true
	if f.sweeper == nil {
		f.sweeper = time.AfterFunc(sweepEvery, f.sweep)
	} else {
		f.sweeper.Reset(sweepEvery)
	}
}

func (f *Files) sweep() {
	f.mu.Lock()
	f.sweeps = false
	closed := f.closed
	f.mu.Unlock()
	if !closed && f.caches.closeIdle(f.now()-int64(openIdle)) > 0 {
		f.sweepLater()
	}
}

// Serve is the Handler. It may park.
func (f *Files) Serve(x *Ctx) error {
	if x.resp.phase != respOpen {
		return ErrSent
	}
	switch x.head.Method {
	case h1.MethodGet, h1.MethodHead:
	case h1.MethodOptions:
		x.AddHeader("Allow", allowFiles)
		return x.Send(204, "", nil)
	default:
		x.AddHeader("Allow", allowFiles)
		return x.SendError(405)
	}
	e, err := f.find(x)
	switch {
	case err == nil:
		defer e.release()
		return x.sendEntry(f, e)
	case err != errDirectory:
		return openStatus(err)
	case x.path[len(x.path)-1] == '/':
		return Status(404)
	}
	return x.redirectToSlash()
}

// ServeAs is Serve as if the client had asked for path, which must begin with a slash and be
// clean: no escapes, no "." and "..", no double slashes. One with a NUL names no file (404).
func (f *Files) ServeAs(x *Ctx, path string) error {
	if strings.IndexByte(path, 0) >= 0 {
		return Status(404) // the system would read as far as there
	}
	x.path = h1.Bytes(path)
	return f.Serve(x)
}

// hiddenPath reports whether a clean path must not be looked up: a name beginning
// with a dot, or a backslash, which some clients take for a slash.
func hiddenPath(path []byte) bool {
	const wellKnown = "/.well-known/" // RFC 8615
	for i, ch := range path {
		if ch == '\\' {
			return true
		}
		if ch == '/' && i+1 < len(path) && path[i+1] == '.' &&
			!(i == 0 && bytes.HasPrefix(path, []byte(wellKnown))) {
			return true
		}
	}
	return false
}

// scarce reports whether err is that no descriptor was left.
func scarce(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

func openStatus(err error) error {
	var status Status
	switch {
	case errors.As(err, &status):
		return err
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG),
		errors.Is(err, unix.EILSEQ), errors.Is(err, unix.EINVAL): // a file system that has no such names
		return Status(404)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM),
		errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP), // a link that leads out
		errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV): // a socket or dead device
		return Status(403)
	case scarce(err), errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w: %w", Status(503), err)
	}
	return fmt.Errorf("knot: open: %w", err)
}

// redirectToSlash sends the client from /docs to /docs/, so that relative
// links in the index work. A clean path has one leading slash, so the location
// can't name another host.
func (x *Ctx) redirectToSlash() error {
	location := append(h1.AppendEscaped(nil, x.path), '/')
	if query := x.head.Query.Of(x.headBytes()); len(query) > 0 {
		location = append(append(location, '?'), query...)
	}
	return x.Redirect(301, string(location))
}

package knot

import (
	"fmt"
	"log/slog"
	"mime"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/fdlimit"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

const allowFiles = "GET, HEAD, OPTIONS"

// Defaults of FilesConfig.
const (
	DefaultCacheBytes   = 64 << 20
	DefaultCacheFileMax = 64 << 10
	DefaultRevalidate   = time.Second
)

// FilesConfig says which files a Files keeps in memory, and how it serves them. A zero field means its default.
type FilesConfig struct {
	// CacheBytes is how many bytes of memory contents of files may take, with what is noted about
	// them. Default: DefaultCacheBytes. Negative: none is kept. They are not on the Go heap, and take memory as they
	// come in; the address space is reserved at once.
	CacheBytes int64
	// CacheFileMax is the size in bytes up to which contents are kept. Larger files are
	// sent out of the kernel's page cache, without the copy that is dearer for them than two
	// more system calls. Default: DefaultCacheFileMax. Negative: none are kept.
	CacheFileMax int64
	// OpenFiles is how many other files are kept open at most, for up to 20 s without a
	// request. Default: one in 64 of the descriptors that the process may have
	// (getrlimit(2)), 16 to 4096. Negative: none.
	OpenFiles int
	// Revalidate is for how long what is kept is used before it is compared again with
	// what is on disk, which costs three system calls, and as many for the root.
	// Default: DefaultRevalidate. Negative: it is compared at every request.
	Revalidate time.Duration

	// Index are the names of the file that a folder is shown by, the first that is there.
	// Default: index.html.
	Index []string
	// MaxRanges is how many ranges a response has at most; a request for more gets the whole
	// file. Default: 16. Negative: one.
	MaxRanges int
	// Codings are the codings of files for clients that accept them, best first; at
	// most 8. A client gets the best coding with a file beside the one that it asks for,
	// smaller and not older (by 10 s or more), or else a coding that is made on the fly
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
type Header struct {
	Name  string // in any case
	Value string // without spaces at its ends
}

// CheckHeader reports what is wrong with a header line that AddHeader or FilesConfig.Header are to
// add: the name is not a token, or one that the server sets itself, or the value has control bytes.
func CheckHeader(name, value string) error {
	return h1.CheckField(name, value)
}

// defaultMaxRanges is how many ranges of a file one response has at most.
const defaultMaxRanges = 16

// Files serves the files below one directory.
//
// It never serves anything outside the root, whatever the path or the
// links say; names that begin with a dot (404; .well-known is the exception);
// anything but regular files (403). Directories are served by their index
// (FilesConfig.Index) and redirected to their trailing slash; there is no listing.
//
// Symbolic links: on Linux 5.6 and later links are followed as long as they
// stay below the root the whole way, so absolute ones are not (403), and lead to
// nothing whose own name, or that of a folder it is in, begins with a dot (404). That
// needs proc(5) at /proc; without it, and on older kernels, no link is followed. The
// root itself may be a link to anywhere.
//
// Contents of small files are kept in memory, other files are kept open, as FilesConfig says. A file that was changed,
// replaced, deleted or forbidden is served as it was until it is compared again. A response that has begun is completed
// from the old file. A file that is changed in place while it is sent from disk may arrive mixed; replace files by
// renaming, as always.
//
// File I/O: names and contents in the kernel's caches are used on the loop. Operations that have to wait for a disk are
// done elsewhere while the task is parked.
type Files struct {
	store     store.Store
	maxRanges int // fixed
}

// OpenFiles opens the root, with caches as config says. It fails if root is not a directory, or one in which nothing
// can be opened. The name is looked up again as often as files are compared with those on disk. If it is a link that
// was switched, or another directory has taken its place, the new directory is served from then on. If the name leads
// nowhere, the old directory is still served, and the error log of the server says so.
func OpenFiles(root string, config FilesConfig) (*Files, error) {
	f := &Files{maxRanges: orDefault(config.MaxRanges, defaultMaxRanges, 1)}
	if err := f.store.Open(root, config.resolved()); err != nil {
		return nil, err
	}
	// Package mime reads the system's tables at the first use: not in a task.
	mime.TypeByExtension(".knot")
	return f, nil
}

// resolved is config with the defaults filled in.
func (config *FilesConfig) resolved() store.Config {
	c := store.Config{
		Bytes:       orDefault(config.CacheBytes, DefaultCacheBytes, 0),
		Open:        orDefault(config.OpenFiles, fdlimit.Files(), 0),
		Revalidate:  orDefault(config.Revalidate, DefaultRevalidate, 0),
		FileMax:     orDefault(config.CacheFileMax, DefaultCacheFileMax, -1),
		Index:       config.Index,
		CompressMin: orDefault(config.CompressMin, defaultCompressMin, 0),
		CompressMax: orDefault(config.CompressMax, defaultCompressMax, 1<<40),
	}
	if len(c.Index) == 0 {
		c.Index = []string{"index.html"}
	}
	for _, one := range config.Codings {
		c.Codings = append(c.Codings, store.Coding(one))
	}
	if of := config.Header; of != nil {
		c.Header = func(name string, add func(name, value string)) {
			for _, line := range of(name) {
				add(line.Name, line.Value)
			}
		}
	}
	return c
}

// Handle is the Handler. It may park.
func (f *Files) Handle(x *Ctx) error {
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
	e, err := f.store.Find(x.storeRequest())
	switch {
	case err == nil:
		defer e.Release()
		return x.sendEntry(f, e)
	case err != store.ErrDirectory:
		return openStatus(err)
	case x.path[len(x.path)-1] == '/':
		return Status(404)
	}
	return x.redirectToSlash()
}

// HandleAs is Handle as if the client had asked for path, which must begin with a slash and be
// clean: no escapes, no "." and "..", no double slashes. One with a NUL names no file (404).
func (f *Files) HandleAs(x *Ctx, path string) error {
	if strings.IndexByte(path, 0) >= 0 {
		return Status(404) // the system would read as far as there
	}
	x.path = h1.Bytes(path)
	return f.Handle(x)
}

// Find is the path of the file that Handle sends for a path: that path, or, if it ends with a slash, the one of the index of
// the folder. It is empty if there is none that may be served; isDir reports whether the path is that of a folder, without its
// slash. The path must be clean, as for HandleAs. It may park.
func (f *Files) Find(x *Ctx, path string) (file string, isDir bool, err error) {
	if path == "" || path[0] != '/' || strings.IndexByte(path, 0) >= 0 {
		return "", false, nil
	}
	q := x.storeRequest()
	q.Path = h1.Bytes(path)
	file, err = f.store.Name(q)
	switch status := store.StatusOf(err); {
	case err == nil:
		return file, false, nil
	case err == store.ErrDirectory:
		return "", true, nil
	case status == 404, status == 403:
		return "", false, nil
	}
	return "", false, openStatus(err)
}

func openStatus(err error) error {
	switch status := store.StatusOf(err); status {
	case 0:
		return fmt.Errorf("knot: open: %w", err)
	case 503:
		return fmt.Errorf("%w: %w", Status(503), err)
	default:
		return Status(status)
	}
}

// redirectToSlash sends the client from /docs to /docs/, so that relative
// links in the index work. A clean path has one leading slash, so the location
// can't name another host.
func (x *Ctx) redirectToSlash() error {
	location := append(h1.AppendEscaped(nil, x.path), '/')
	if query := x.Query(); query != "" {
		location = append(append(location, '?'), query...)
	}
	return x.Redirect(301, string(location))
}

// storeRequest is x as the store sees it.
func (x *Ctx) storeRequest() *store.Request {
	q := &x.fileRequest
	q.Path, q.Head, q.Text, q.Log = x.path, &x.head, x.headBytes(), (*fileLog)(x)
	x.srv.clock.Now()
	q.Second = x.srv.clock.Stamp().Unix
	return q
}

// fileLog is a Ctx as store.Log.
type fileLog Ctx

// Logger implements store.Log.
func (x *fileLog) Logger() *slog.Logger { return x.srv.errorLog() }

// LogRequest implements store.Log.
func (x *fileLog) LogRequest(message string, args ...any) { (*Ctx)(x).logRequest(message, args...) }

// Close closes the root and the files that are kept open. Call it after the server has shut
// down.
func (f *Files) Close() error { return f.store.Close() }

// Stats returns the counters of the caches. Safe from anywhere.
func (f *Files) Stats() FilesStats { return FilesStats(f.store.Stats()) }

// List returns the files and folders in the folder that the path of x names, as far as Handle would serve them, in no
// order, and no more than most; more reports that there are more. The path must end with a slash. Errors are those of
// Handle: match them with errors.As against Status. It parks.
func (f *Files) List(x *Ctx, most int) (all []Listed, more bool, err error) {
	more, err = f.store.List(x.storeRequest(), most, func(one store.Listed) { all = append(all, Listed(one)) })
	if err != nil {
		return nil, false, openStatus(err)
	}
	return all, more, nil
}

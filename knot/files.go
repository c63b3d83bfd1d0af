package knot

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const allowFiles = "GET, HEAD, OPTIONS"

// Files serves the files below one directory.
//
// What it never serves: anything outside the root, whatever the path or the
// links say; names that begin with a dot (404; .well-known is the exception);
// anything but regular files (403). Directories are served by their
// index.html and redirected to their trailing slash; there is no listing.
//
// Symbolic links: on Linux 5.6 and later links are followed as long as they
// stay below the root the whole way, so absolute ones are not (403). On older
// kernels no link is followed.
//
// File I/O: names and contents in the kernel's caches are used on the loop,
// anything that would have to wait for a disk is done by task.Offload.
type Files struct {
	root  int  // O_PATH descriptor; fixed until Close
	walks bool // no openat2: walk the path; fixed
	cache bool // the kernel has RESOLVE_CACHED; fixed
}

// OpenFiles opens the root. It fails if root is not a directory. The root is
// the directory itself from now on, whatever happens to its name.
func OpenFiles(root string) (*Files, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	f := &Files{root: fd}
	f.probe()
	// Package mime reads the system's tables at the first use: not in a task.
	mime.TypeByExtension(".knot")
	return f, nil
}

// Close closes the root. Call it after the server has shut down.
func (f *Files) Close() error { return unix.Close(f.root) }

// fileInfo is what a response says of a file.
type fileInfo struct {
	size  int64
	mtime int64 // nanoseconds since 1970
	mode  uint32
}

// Serve is the Handler. It may park.
func (f *Files) Serve(x *Ctx) error {
	switch x.head.method {
	case methodGet, methodHead:
	case methodOptions:
		x.AddHeader("Allow", allowFiles)
		return x.Send(204, "", nil)
	default:
		x.AddHeader("Allow", allowFiles)
		return x.SendError(405)
	}
	path := x.path
	if path[0] != '/' || hiddenPath(path) {
		return Status(404)
	}
	directory := path[len(path)-1] == '/'
	x.name = append(x.name[:0], path[1:]...)
	if directory {
		x.name = append(x.name, "index.html"...)
	}
	x.name = append(x.name, 0)
	fd, err := f.open(x)
	if err != nil {
		return openStatus(err)
	}
	defer unix.Close(fd)
	var info fileInfo
	if err := info.read(fd); err != nil {
		return err
	}
	switch {
	case info.mode&unix.S_IFMT == unix.S_IFREG:
		return x.sendFile(fd, &info, contentType(x.name[:len(x.name)-1]))
	case info.mode&unix.S_IFMT == unix.S_IFDIR && !directory:
		return x.redirectToSlash()
	case info.mode&unix.S_IFMT == unix.S_IFDIR:
		return Status(404)
	}
	return Status(403)
}

func (info *fileInfo) read(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("knot: fstat: %w", err)
	}
	*info = fileInfo{size: st.Size, mtime: st.Mtim.Nano(), mode: uint32(st.Mode)}
	return nil
}

// hiddenPath says whether a clean path must not be looked up: a name beginning
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

func openStatus(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG):
		return Status(404)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM),
		errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP), // a link that leads out
		errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV): // a socket or dead device
		return Status(403)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w: %w", Status(503), err)
	}
	return fmt.Errorf("knot: open: %w", err)
}

// redirectToSlash sends the client from /docs to /docs/, so that relative
// links in the index work. A clean path has one leading slash, so the location
// can't name another host.
func (x *Ctx) redirectToSlash() error {
	location := append(appendEscaped(nil, x.path), '/')
	if query := x.head.query.of(x.headBytes()); len(query) > 0 {
		location = append(append(location, '?'), query...)
	}
	return x.Redirect(301, string(location))
}

// sendFile answers GET and HEAD with the file, a part of it, or 304.
func (x *Ctx) sendFile(fd int, info *fileInfo, ctype string) error {
	r := &x.resp
	var tag [40]byte
	etag := appendTag(tag[:0], info)
	modified := time.Unix(0, info.mtime).UTC()
	fields := append(r.fields, "Last-Modified: "...)
	fields = append(modified.AppendFormat(fields, httpTime), "\r\nETag: "...)
	fields = append(append(fields, etag...), "\r\nAccept-Ranges: bytes\r\n"...)
	r.fields = fields
	if x.notModified(etag, modified) {
		r.status = 304
		return nil
	}
	r.ctype = ctype
	from, length := int64(0), info.size
	if x.head.method == methodGet {
		switch part, ok := x.wantedRange(etag, modified, info.size); {
		case !ok:
			r.fields = strconv.AppendInt(append(r.fields, "Content-Range: bytes */"...), info.size, 10)
			r.fields = append(r.fields, "\r\n"...)
			return x.SendError(416)
		case part.set:
			r.status, from, length = 206, part.from, part.to-part.from
			r.fields = part.appendHeader(r.fields, info.size)
		}
	}
	return x.sendBytes(fd, from, length)
}

// appendTag makes a strong validator of size and nanosecond time of change.
func appendTag(dst []byte, info *fileInfo) []byte {
	dst = strconv.AppendInt(append(dst, '"'), info.mtime, 36)
	dst = strconv.AppendInt(append(dst, '-'), info.size, 36)
	return append(dst, '"')
}

// sendBytes commits the response and streams length bytes of the file.
func (x *Ctx) sendBytes(fd int, from, length int64) error {
	r := &x.resp
	r.length, r.written = length, length
	r.phase = respFixed
	x.commit(length)
	if x.head.method == methodHead {
		r.written, r.phase = 0, respDone
		return nil
	}
	wide := length > int64(cap(x.out)-len(x.out))
	if wide {
		x.widen()
		defer x.narrow()
	}
	source := fileSource{fd: fd}
	for length > 0 {
		end := len(x.out)
		free := int64(cap(x.out) - end)
		n, err := source.readAt(x.out[end:end+int(min(free, length))], from)
		if n <= 0 {
			// Too late to say anything but by closing.
			r.written -= length
			x.closing, x.torn = true, true
			if err == nil {
				err = errors.New("knot: file shrank while it was sent")
			}
			return err
		}
		x.out = x.out[:end+n]
		from += int64(n)
		length -= int64(n)
		if length > 0 && cap(x.out)-len(x.out) < wideSize/4 {
			if err := x.flush(); err != nil {
				return err
			}
			x.busyReads()
		}
	}
	r.phase = respDone
	return nil
}

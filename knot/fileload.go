package knot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/task"
)

var (
	errDirectory = errors.New("knot: the path is a directory")
	// errLost says that who was to open a file was torn away from it.
	errLost = errors.New("knot: opening the file was abandoned")
)

// fileBytes are the contents that are kept, as the blocking graph shows them.
var fileBytes = countFileBytes()

func countFileBytes() *task.Resource {
	r, err := task.NewResource("file cache", "bytes")
	if err != nil {
		panic(err) // the table of resources is empty when packages are set up
	}
	return r
}

// identity tells one state of a file from others. Any change of a file, of its
// permissions too, changes ctime.
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds since 1970
	mode         uint32
}

func (id *identity) read(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("knot: fstat: %w", err)
	}
	*id = identity{
		dev: uint64(st.Dev), ino: st.Ino, size: st.Size,
		mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), mode: uint32(st.Mode),
	}
	return nil
}

// kind is nil for what may be served.
func (id *identity) kind() error {
	switch id.mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return errDirectory
	}
	return Status(403)
}

// fileHead is what the responses about a file have in common.
type fileHead struct {
	modified   time.Time
	ctype      string
	tag        []byte // within lines
	validators int    // length of the header lines that a 304 has, in lines
}

// coarse is the resolution of the times of files, in nanoseconds, with something to
// spare: a change so soon after another may leave the same times.
const coarse = int64(50 * time.Millisecond)

// find returns the file that x asks for, to be released by the caller. It may park.
func (f *Files) find(x *Ctx) (*entry, error) {
	c, now := f.caches, f.now()
	f.follow(x, now)
	if c == nil {
		e, _, err := f.openEntry(x, nil)
		return e, err
	}
	for {
		e, fl, mine := c.get(x.path, now)
		if mine {
			return f.load(x, fl)
		}
		if e == nil {
			var err error
			if e, err = fl.wait(); err == errLost {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		// What was opened after the request came is new enough.
		checked := e.checked.Load()
		if (now-checked < f.revalidate || now < checked) && checked > f.root.switched.Load() || f.stillThere(x, e, now) {
			return e, nil
		}
		e.drop()
		e.release()
	}
}

// stillThere compares e with what its path leads to now. While one does so, others use
// e; but not if it is to be compared at every request.
func (f *Files) stillThere(x *Ctx, e *entry, now int64) bool {
	if e.young {
		return false
	}
	if f.revalidate > 0 {
		e.checked.Store(now)
	}
	fd, file, err := f.open(x, &toLook)
	if err != nil {
		return false
	}
	var id identity
	err = id.read(fd)
	closeEither(fd, file)
	if err != nil || id != e.id {
		return false
	}
	e.checked.Store(now)
	return true
}

// load opens the file for a flight.
func (f *Files) load(x *Ctx, fl *flight) (*entry, error) {
	landed := false
	defer func() {
		if !landed { // the runtime is closing
			fl.land(nil, errLost, false, 0)
		}
	}()
	e, keep, err := f.openEntry(x, fl)
	landed = true
	told := err
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		told = errLost // the end of our task is no matter of theirs
	}
	fl.land(e, told, keep, f.now())
	if keep && !e.full {
		f.sweepLater()
	}
	return e, err
}

// openHook, if set by a test, runs before a file is opened.
var openHook func()

// openEntry opens the file that x asks for. keep says that it belongs into the cache.
func (f *Files) openEntry(x *Ctx, fl *flight) (e *entry, keep bool, err error) {
	if x.path[0] != '/' || hiddenPath(x.path) {
		return nil, false, Status(404)
	}
	if openHook != nil {
		openHook()
	}
	began := f.now()
	fd, file, err := f.open(x, &toRead)
	if (errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)) && f.caches != nil {
		f.caches.closeIdle(began + 1)
		fd, file, err = f.open(x, &toRead)
	}
	if err != nil {
		return nil, false, err
	}
	made := &entry{fd: fd}
	if file != nil {
		made.file.Store(file)
	} else {
		task.Descriptors.Acquire(1)
	}
	made.users.Store(1)
	made.checked.Store(began)
	defer func() {
		if e == nil { // also when the runtime is closing
			made.release()
		}
	}()
	if err := made.id.read(fd); err != nil {
		return nil, false, err
	}
	if err := made.id.kind(); err != nil {
		return nil, false, err
	}
	made.describe(contentType(x.name[:len(x.name)-1]))
	if fl != nil {
		made.shard, made.key = fl.shard, fl.key
		keep = f.keep(made)
	}
	return made, keep, nil
}

// keep decides about a file that was opened for the cache, and reads it if its content
// belongs there. It may park.
func (f *Files) keep(e *entry) bool {
	if e.id.size > f.fileMax {
		return e.shard.files > 0
	}
	_, hash := f.caches.shard(viewBytes(e.key))
	if !e.shard.reserve(e, hash) {
		return false
	}
	if !e.readWhole() {
		e.giveBack()
		return false
	}
	e.full = true
	e.close()
	e.fd = -1
	e.shard.loaded()
	return true
}

func (s *cacheShard) loaded() {
	s.mu.Lock()
	s.stats.Loads++
	s.mu.Unlock()
}

// readWhole reads the content, and returns false if the file was not the same all the
// time.
func (e *entry) readWhole() bool {
	at := int64(0)
	for _, p := range e.parts {
		for len(p) > 0 {
			n, err := e.readAt(p, at)
			if n <= 0 || err != nil {
				return false
			}
			at += int64(n)
			p = p[n:]
		}
	}
	var after identity
	if after.read(e.fd) != nil || after != e.id {
		return false
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) == nil {
		e.young = now.Nano()-e.id.ctime < coarse
	}
	return true
}

// describe prepares the header lines that go with the file.
func (e *entry) describe(ctype string) {
	h := &e.head
	h.ctype = ctype
	h.modified = time.Unix(0, e.id.mtime).UTC()
	b := make([]byte, 0, 192+len(ctype))
	b = h.modified.AppendFormat(append(b, "Last-Modified: "...), httpTime)
	b = append(b, "\r\nETag: "...)
	tag := len(b)
	b = appendTag(b, &e.id)
	end := len(b)
	b = append(b, "\r\nAccept-Ranges: bytes\r\n"...)
	h.validators = len(b)
	b = append(append(append(b, "Content-Type: "...), ctype...), "\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, e.id.size, 10), "\r\n\r\n"...)
	h.tag = b[tag:end:end]
	e.lines = b
}

// appendTag makes a strong validator of size and nanosecond time of change.
func appendTag(dst []byte, id *identity) []byte {
	dst = strconv.AppendInt(append(dst, '"'), id.mtime, 36)
	dst = strconv.AppendInt(append(dst, '-'), id.size, 36)
	return append(dst, '"')
}

var errShrank = fmt.Errorf("knot: file shrank while it was sent: %w", io.ErrUnexpectedEOF)

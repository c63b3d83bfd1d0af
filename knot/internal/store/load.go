package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/contenttype"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/ressched"
)

var (
	ErrDirectory = errors.New("knot: the path is a directory")
	// errLost means that the task that was opening a file has ended: another one has to open it.
	errLost = errors.New("knot: opening the file was abandoned")
)

// contents are the contents that are kept, as the blocking graph shows them.
var contents = tasks.Resource("file cache", "bytes")

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

// timeless is a time, in nanoseconds since 1970, before which mtime says nothing: no file of a site is from
// before 1981, but package managers and builds that are to be the same each time give all files one such
// time (the first second of 1970, or of 1980, the oldest of zip).
const timeless = int64(11 * 365 * 24 * time.Hour)

// changed is when the content was changed, as far as can be told, in nanoseconds since 1970. By mtime servers
// with copies of a file say the same of it; but two versions must not be told apart by their size alone.
func (id *identity) changed() int64 {
	if id.mtime < timeless {
		return id.ctime
	}
	return id.mtime
}

// young reports whether the file was changed so shortly before that another change may look the
// same.
func (id *identity) young() bool {
	var now unix.Timespec
	return unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) == nil && now.Nano()-id.ctime < Coarse
}

// kind is nil for what may be served.
func (id *identity) kind() error {
	switch id.mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return ErrDirectory
	}
	return ErrKind
}

// Head is what the responses about a file have in common.
type Head struct {
	Modified   time.Time
	Type       string
	Tag        []byte // within lines
	Own        int    // where the lines of FilesConfig.Header begin, in lines; they end at validators
	Validators int    // length of the header lines that a 304 has, in lines
	Coded      int    // ... with Content-Encoding
	text       bool   // files of this type get smaller by compression
	varies     bool   // the file has other forms, whose dates may be the same
}

// Coarse is the resolution of the times of files, in nanoseconds, with something to
// spare: a change so soon after another may leave the same times.
var Coarse = int64(50 * time.Millisecond) // for tests to change

// Find returns the file that q asks for, in the form that suits the client best, to be released
// by the caller. It may park.
func (f *Store) Find(q *Request) (*Entry, error) {
	now := f.Now()
	f.follow(q, now)
	e, err := f.findAs(q, now, want{})
	if err != nil || len(f.codings.list) == 0 {
		return e, err
	}
	return f.choose(q, now, e), nil
}

// Name returns the path below the root of the file that q asks for, as Find finds it. It may park.
func (f *Store) Name(q *Request) (string, error) {
	now := f.Now()
	f.follow(q, now)
	e, err := f.findAs(q, now, want{})
	if err != nil {
		return "", err
	}
	defer e.Release()
	return e.name, nil
}

// findAs returns what is wanted.
func (f *Store) findAs(q *Request, now int64, w want) (*Entry, error) {
	c := f.Caches
	if c == nil {
		e, _, err := f.openEntry(q, nil, w)
		return e, err
	}
	for {
		e, fl, mine := c.Get(q.cacheKey(&w), now, w.coding == nil)
		if mine {
			if w.coding != nil && !w.beside {
				return f.compress(q, fl, w)
			}
			return f.load(q, fl, w)
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
		if f.fresh(q, e, now, w) {
			return e, nil
		}
		e.Drop()
		e.Release()
	}
}

// fresh reports whether e may be used.
func (f *Store) fresh(q *Request, e *Entry, now int64, w want) bool {
	if w.coding != nil && !w.beside {
		return e.id == w.plain.id // which is fresh
	}
	// A file that was opened after the request came is new enough.
	checked := e.checked.Load()
	return (now-checked < f.revalidate || now < checked) && checked > f.Root.switched.Load() || f.stillThere(q, e, now, w)
}

// stillThere compares e with what its path leads to now. While one does so, others use
// e; but not if it must be compared at every request.
func (f *Store) stillThere(q *Request, e *Entry, now int64, w want) bool {
	if e.Young {
		return false
	}
	if f.revalidate > 0 {
		e.checked.Store(now)
	}
	fd, file, err := f.openWanted(q, &toLook, &w)
	if Scarce(err) && e.Full && f.revalidate > 0 {
		return true // nothing is known of a change, and to send it no descriptor is needed
	}
	if err != nil {
		return false
	}
	var id identity
	err = id.read(fd)
	closeEither(fd, file)
	if err != nil || id != e.id || w.coding == nil && f.besides(q, e.name, &id, e.Head.Type) != e.beside {
		return false
	}
	e.checked.Store(now)
	return true
}

// load opens the file for a flight.
func (f *Store) load(q *Request, fl *flight, w want) (*Entry, error) {
	landed := false
	defer func() {
		if !landed { // the runtime is closing
			fl.land(nil, errLost, false, 0)
		}
	}()
	e, keep, err := f.openEntry(q, fl, w)
	landed = true
	told := err
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		told = errLost // the end of our task is no matter of theirs
	}
	fl.land(e, told, keep, f.Now())
	if keep && !e.Full {
		f.sweepLater()
	}
	return e, err
}

// OpenHook, if set by a test, runs before a file is opened.
var OpenHook func()

// openEntry opens what is wanted. keep means that it belongs into the cache.
func (f *Store) openEntry(q *Request, fl *flight, w want) (e *Entry, keep bool, err error) {
	if q.Path[0] != '/' || hiddenPath(q.Path) {
		return nil, false, ErrHidden
	}
	if OpenHook != nil {
		OpenHook()
	}
	began := f.Now()
	fd, file, err := f.openWanted(q, &toRead, &w)
	if errors.Is(err, unix.EACCES) && f.kindOf(q, &w) == ErrDirectory {
		err = ErrDirectory // a directory is never read
	}
	if err != nil {
		return nil, false, err
	}
	made := &Entry{FD: fd}
	if file != nil {
		made.File.Store(file)
	} else {
		ressched.Descriptors.Acquire(1)
	}
	made.users.Store(1)
	made.checked.Store(began)
	defer func() {
		if e == nil { // also when the runtime is closing
			made.Release()
		}
	}()
	if err := made.id.read(fd); err != nil {
		return nil, false, err
	}
	if err := made.id.kind(); err != nil {
		return nil, false, err
	}
	made.Length = made.id.size
	// A Last-Modified is not later than the Date beside it (RFC 9110, 8.8.2.1); our clock may be late by a second.
	made.Head.Modified = time.Unix(0, made.id.changed()).UTC()
	if now := q.Second; made.Head.Modified.Unix() > now+1 {
		made.Head.Modified = time.Unix(now, 0).UTC()
	}
	f.describe(q, made, w)
	if fl != nil {
		made.Shard, made.Key = fl.shard, fl.key
		made.kept = f.keep(made)
	}
	return made, made.kept, nil
}

// kindOf is the kind of what is wanted, which need not be readable, or what opening it met. It may park.
func (f *Store) kindOf(q *Request, w *want) error {
	fd, file, err := f.openWanted(q, &toLook, w)
	if err != nil {
		return err
	}
	defer closeEither(fd, file)
	var id identity
	if err := id.read(fd); err != nil {
		return err
	}
	return id.kind()
}

// describe prepares the header of a file that was just opened. It may park.
func (f *Store) describe(q *Request, e *Entry, w want) {
	if w.coding != nil {
		e.describe(f, w.plain.name, w.plain.Head.Type, &w, 0)
		return
	}
	name := "/" + string(q.name[:len(q.name)-1])
	ctype := contenttype.Of(name)
	f.eachLine(name, func(name, value string) {
		if h1.TextIs(h1.Bytes(name), "content-type") {
			ctype = value
		}
	})
	e.beside = f.besides(q, name, &e.id, ctype)
	e.describe(f, name, ctype, &w, 0)
}

// keep decides about a file that was opened for the cache, and reads it if its content
// belongs there. It may park.
func (f *Store) keep(e *Entry) bool {
	if e.id.size > f.fileMax {
		return e.Shard.Files > 0
	}
	_, hash := f.Caches.Shard(h1.Bytes(e.Key))
	if !e.Shard.reserve(e, hash) {
		return false
	}
	if !e.readWhole() {
		e.giveBack()
		return false
	}
	e.Full = true
	e.close()
	e.FD = -1
	e.Shard.loaded()
	return true
}

func (s *shard) loaded() {
	s.Mu.Lock()
	s.stats.Loads++
	s.Mu.Unlock()
}

// readWhole reads the content, and returns false if the file was not the same all the
// time.
func (e *Entry) readWhole() bool {
	at := int64(0)
	for _, p := range e.Parts {
		for len(p) > 0 {
			n, err := e.ReadAt(p, at)
			if n <= 0 || err != nil {
				return false
			}
			at += int64(n)
			p = p[n:]
		}
	}
	var after identity
	if after.read(e.FD) != nil || after != e.id {
		return false
	}
	e.Young = e.id.young()
	return true
}

// describe prepares the header lines that go with what w says of the file called name, which was last modified as its head
// says; sum is a checksum of the content if that was made on the fly.
func (e *Entry) describe(f *Store, name, ctype string, w *want, sum uint32) {
	h := &e.Head
	e.name, h.Type = name, ctype
	h.text = Compressible(ctype)
	b := make([]byte, 0, 192+len(ctype))
	b = h.Modified.AppendFormat(append(b, "Last-Modified: "...), http.TimeFormat)
	b = append(b, "\r\nETag: "...)
	tag := len(b)
	b = appendTag(b, &e.id, w, sum)
	end := len(b)
	b = append(b, "\r\nAccept-Ranges: bytes\r\n"...)
	if h.varies = len(f.codings.list) > 0 && (h.text || e.beside != 0 || w.coding != nil); h.varies {
		b = append(b, "Vary: Accept-Encoding\r\n"...)
	}
	h.Own = len(b)
	f.eachLine(name, func(name, value string) {
		if h1.CheckField(name, value) == nil {
			b = h1.AppendField(b, name, value)
		}
	})
	h.Validators = len(b)
	if w.coding != nil {
		b = h1.AppendField(b, "Content-Encoding", w.coding.Name)
	}
	h.Coded = len(b)
	b = h1.AppendField(b, "Content-Type", ctype)
	b = strconv.AppendInt(append(b, "Content-Length: "...), e.Length, 10)
	b = append(b, "\r\n\r\n"...)
	h.Tag = b[tag:end:end]
	e.Lines = b
}

// eachLine calls fn for what the program adds to the header of a file.
func (f *Store) eachLine(name string, fn func(name, value string)) {
	if f.header != nil {
		f.header(name, fn)
	}
}

// appendTag makes a strong validator of size and nanosecond time of change, see changed; and of the coding,
// with a sum of the content if another version of the program might code it differently.
func appendTag(dst []byte, id *identity, w *want, sum uint32) []byte {
	dst = strconv.AppendInt(append(dst, '"'), id.changed(), 36)
	dst = strconv.AppendInt(append(dst, '-'), id.size, 36)
	if w.coding != nil {
		dst = append(append(dst, '-'), w.coding.Name...)
		if !w.beside {
			dst = strconv.AppendUint(append(dst, '-'), uint64(sum), 36)
		}
	}
	return append(dst, '"')
}

var ErrShrank = fmt.Errorf("knot: file shrank while it was sent: %w", io.ErrUnexpectedEOF)

package cache

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache/rfc"
	"github.com/capriccio-go/capriccio/task"
)

// A file has one entry:
//
//	"knot cache 1\n"   13 bytes
//	length of what is said of it   4 bytes, little-endian, as the next three
//	length of the body   8
//	CRC-32C of what is said of it   4
//	CRC-32C of the body   4
//	what is said of it   JSON
//	the body
//
// It is written under another name, and renamed when it is whole.
const (
	magic      = "knot cache 1\n"
	fixedSize  = len(magic) + 20
	maxSaid    = 256 << 10 // of what is said: four times the largest head of a response
	suffix     = ".entry"
	unfinished = ".new"
	// abandonedAfter is the age at which an unfinished file counts as left by a process that has ended, and so when the process that
	// this one follows, which may have saved files behind the first scan, saves no more.
	abandonedAfter = time.Hour
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// said is what a file says of its entry. Its texts are bytes: JSON would change a string that is not UTF-8.
type said struct {
	Key       []byte      `json:"key"`
	Status    int         `json:"status"`
	Header    []saidField `json:"header"`
	Vary      []saidField `json:"vary,omitempty"`
	Defaults  bool        `json:"defaults,omitempty"`
	Requested time.Time   `json:"requested"`
	Received  time.Time   `json:"received"`
}

type saidField struct{ Name, Value []byte }

func toSaid(fields []rfc.Field) (said []saidField) {
	for _, f := range fields {
		said = append(said, saidField{[]byte(f.Name), []byte(f.Value)})
	}
	return said
}

func fromSaid(said []saidField) (fields []rfc.Field) {
	for _, f := range said {
		fields = append(fields, rfc.Field{Name: string(f.Name), Value: string(f.Value)})
	}
	return fields
}

var errFile = errors.New("it is no file of the cache, or was changed")

// files are the entries in a folder.
type files struct {
	folder string
	s      *state

	scan  sync.WaitGroup // the first scan
	scans sync.WaitGroup // all of them
	stop  chan struct{}  // closed: the scans are to end

	unread int   // files that the system did not open; of the scan
	cause  error // of the last of them; of the scan
}

func (f *files) path(name string) string { return filepath.Join(f.folder, name[:2], name) }

// nameOf is what the names of files for an entry begin with, and those for all entries that take its place.
func nameOf(e *entry) string {
	h := sha256.New()
	io.WriteString(h, e.key)
	for _, v := range e.Key {
		fmt.Fprintf(h, "\n%q=%q", v.Name, v.Value)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]) + "-"
}

// encode is the file for e.
func encode(e *entry, body []byte) ([]byte, error) {
	meta, err := json.Marshal(said{[]byte(e.key), e.Status, toSaid(e.Header), toSaid(e.Key), e.Defaults, e.Requested, e.Received})
	if err != nil {
		return nil, err
	}
	if len(meta) > maxSaid {
		return nil, fmt.Errorf("its header takes %d bytes in the file; want at most %d", len(meta), maxSaid)
	}
	out := make([]byte, 0, fixedSize+len(meta)+len(body))
	out = append(out, magic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(meta)))
	out = binary.LittleEndian.AppendUint64(out, uint64(len(body)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(meta, castagnoli))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(body, castagnoli))
	return append(append(out, meta...), body...), nil
}

// decode reads what a file of that size says of its entry, without the body. sum is the checksum of that.
func decode(r io.Reader, size int64, rules *rfc.Rules) (e *entry, sum uint32, err error) {
	var fixed [fixedSize]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil || string(fixed[:len(magic)]) != magic {
		return nil, 0, errFile
	}
	numbers := fixed[len(magic):]
	length, body := binary.LittleEndian.Uint32(numbers), binary.LittleEndian.Uint64(numbers[4:])
	if length > maxSaid || body > uint64(size) || int64(fixedSize)+int64(length)+int64(body) != size {
		return nil, 0, errFile
	}
	meta := make([]byte, length)
	if _, err := io.ReadFull(r, meta); err != nil || crc32.Checksum(meta, castagnoli) != binary.LittleEndian.Uint32(numbers[12:]) {
		return nil, 0, errFile
	}
	var it said
	if json.Unmarshal(meta, &it) != nil || it.Status < 200 || it.Status > 599 || len(it.Key) == 0 {
		return nil, 0, errFile
	}
	stored := rfc.Restore(rfc.Response{Status: it.Status, Header: fromSaid(it.Header), Requested: it.Requested, Received: it.Received}, fromSaid(it.Vary), it.Defaults, rules)
	e = newEntry(string(it.Key), stored, nil)
	e.body, e.size, e.cost = nil, int64(body), e.cost+int64(body)
	return e, binary.LittleEndian.Uint32(numbers[16:]), nil
}

// write writes the file of e, whose body is body. It blocks.
func (f *files) write(e *entry, body []byte) (name string, err error) {
	text, err := encode(e, body)
	if err != nil {
		return "", err
	}
	name = nameOf(e) + rand.Text()[:8] + suffix
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	temporary := filepath.Join(f.folder, rand.Text()+unfinished)
	if err = os.WriteFile(temporary, text, 0o600); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		os.Remove(temporary)
		return "", err
	}
	return name, nil
}

// load reads the body of e from its file. It blocks.
func (f *files) load(name string, e *entry) ([]byte, error) {
	found, body, err := f.read(f.path(name), true)
	if err == nil && (found.key != e.key || found.size != e.size) {
		err = errFile
	}
	return body, err
}

// remove deletes files. f may be nil. It may park.
func (f *files) remove(names []string) {
	if len(names) == 0 {
		return
	}
	task.Offload(func() {
		for _, name := range names {
			os.Remove(f.path(name))
		}
	})
}

// start scans the folder in the background, and once more after abandonedAfter: each scan takes up the files that it finds.
func (f *files) start() error {
	if err := os.MkdirAll(f.folder, 0o700); err != nil {
		return err
	}
	probe := filepath.Join(f.folder, rand.Text()+unfinished)
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		return err
	}
	os.Remove(probe)
	f.stop = make(chan struct{})
	f.scan.Add(1)
	f.scans.Go(func() {
		f.takeAll()
		f.scan.Done()
		select {
		case <-time.After(abandonedAfter):
			f.takeAll()
		case <-f.stop:
		}
		f.s.mu.Lock()
		f.s.purged = nil
		f.s.mu.Unlock()
	})
	return nil
}

func (f *files) close() {
	if f.stop != nil {
		close(f.stop)
		f.scans.Wait()
	}
}

// takeAll is a scan.
func (f *files) takeAll() {
	f.unread = 0
	if err := filepath.WalkDir(f.folder, f.take); err != nil && err != fs.SkipAll {
		f.s.log.Warn("knot: the folder of a cache can't be read", "folder", f.folder, "error", err)
	}
	if f.unread > 0 {
		f.s.log.Warn("knot: files of a cache can't be opened, and stay where they are", "folder", f.folder, "files", f.unread, "error", f.cause)
	}
}

// take takes up one file. Files with other names are left alone.
func (f *files) take(path string, d fs.DirEntry, err error) error {
	select {
	case <-f.stop:
		return fs.SkipAll
	default:
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted since it was listed: the process that this one follows may still drop entries
	}
	if err != nil || d.IsDir() {
		return err
	}
	name := d.Name()
	if strings.HasSuffix(name, unfinished) {
		if info, err := d.Info(); err == nil && f.s.now().Sub(info.ModTime()) > abandonedAfter {
			os.Remove(path)
		}
		return nil
	}
	if !strings.HasSuffix(name, suffix) || !d.Type().IsRegular() {
		return nil
	}
	e, _, err := f.read(path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if of := new(fs.PathError); errors.As(err, &of) { // the system's, such as too many open files: the file may be whole
		f.unread++
		f.cause = err
		return nil
	}
	if err == nil && !strings.HasPrefix(name, nameOf(e)) {
		err = errFile
	}
	if err != nil {
		f.s.counts.corrupt.Add(1)
		os.Remove(path)
		return nil
	}
	f.s.adopt(e, name)
	return nil
}

// read reads what a file says of its entry, and the body if that is wanted; else body is nil. It blocks.
func (f *files) read(path string, wanted bool) (e *entry, body []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	e, sum, err := decode(file, info.Size(), f.s.rules)
	if err != nil || !wanted {
		return e, nil, err
	}
	body = make([]byte, e.size)
	if _, err := io.ReadFull(file, body); err != nil || crc32.Checksum(body, castagnoli) != sum {
		return nil, nil, errFile
	}
	return e, body, nil
}

// adopt keeps e, which is in a file, unless there is a response in its place that is later, or that was just written there. A file
// of a time with more room, or from before it was invalidated, is deleted.
func (s *state) adopt(e *entry, name string) {
	s.mu.Lock()
	garbage := s.adoptLocked(e, name)
	s.mu.Unlock()
	s.files.remove(garbage)
}

func (s *state) adoptLocked(e *entry, name string) (garbage []string) {
	prefix := nameOf(e)
	for _, v := range s.variantsLocked(e.key) {
		if v.file == name || nameOf(v) == prefix && v.Received.Equal(e.Received) {
			return nil
		}
		if nameOf(v) == prefix && v.Received.After(e.Received) {
			return []string{name}
		}
	}
	if e.cost > min(s.limits.memory, s.limits.disk) || s.wasPurgedLocked(e) {
		return []string{name}
	}
	e.file = name
	return s.putLocked(e, nil)
}

// Start opens the folder, if there is one.
func (c *Cache) Start() error {
	c.mu.Lock()
	c.started = true
	c.users++
	first := c.users == 1
	c.mu.Unlock()
	if first && c.files != nil {
		return c.files.start()
	}
	return nil
}

// Close ends what Start has begun. What was adopted goes on.
func (c *Cache) Close() {
	if !c.started {
		return
	}
	c.mu.Lock()
	c.users--
	last := c.users == 0
	c.mu.Unlock()
	if last && c.files != nil {
		c.files.close()
	}
}

package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/contenttype"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/task"
)

const (
	// MaxCodings is how many codings fit into Entry.beside.
	MaxCodings = h1.MaxCodings
	// staleBeside is by how much a file that was compressed beforehand may be older than the file
	// that it stands beside: a copy of a site sets the times of both in any order.
	staleBeside = int64(10 * time.Second)
)

var (
	errDull    = errors.New("knot: the file does not get smaller, or not small enough to be kept")
	errNotKept = errors.New("knot: there is no room or no time to compress the file")
)

// codings is what a Store knows about compression. All fields are fixed.
type codings struct {
	list       []Coding
	suffixes   bool // one of list has a Suffix
	compresses bool // one of list has Compress
	least      int64
	most       int64
}

func (f *Store) configureCodings(config *Config) error {
	k := &f.codings
	k.list = config.Codings
	k.least, k.most = config.CompressMin, config.CompressMax
	if len(k.list) > MaxCodings {
		return fmt.Errorf("knot: %d codings; there may be %d", len(k.list), MaxCodings)
	}
	known := make(map[string]bool)
	for _, c := range k.list {
		switch {
		case !h1.IsToken(c.Name) || c.Name != strings.ToLower(c.Name) || c.Name == "identity" || known[c.Name]:
			return fmt.Errorf("knot: coding %q; want a name in lower case, each once", c.Name)
		case c.Suffix != "" && (c.Suffix[0] != '.' || strings.ContainsAny(c.Suffix, "/\x00")):
			return fmt.Errorf("knot: suffix %q of the coding %s; want one like .gz", c.Suffix, c.Name)
		}
		known[c.Name] = true
		k.suffixes = k.suffixes || c.Suffix != ""
		k.compresses = k.compresses || c.Compress != nil
	}
	return nil
}

// Compressing is taken while a file is compressed, by any Store: a processor is left for the loops.
var (
	Compressing     = task.NewSemaphore(MostCompressing)
	MostCompressing = int64(max(1, runtime.GOMAXPROCS(0)-1))
)

// A want says what is looked for under the path of a request.
type want struct {
	coding *Coding // nil: the file itself
	plain  *Entry  // the file itself, if coding is set
	beside bool    // a file beside it, not one made from it
}

// cacheKey is the name under which the cache knows what is wanted. A path has no NUL.
func (q *Request) cacheKey(w *want) []byte {
	if w.coding == nil {
		return q.Path
	}
	q.key = append(append(q.key[:0], q.Path...), 0)
	if !w.beside {
		q.key = append(q.key, '+')
	}
	q.key = append(q.key, w.coding.Name...)
	return q.key
}

// choose returns the form of the file that suits the client best: one compressed beforehand, one
// compressed by us, or plain itself. It takes plain over. It may park.
func (f *Store) choose(q *Request, now int64, plain *Entry) *Entry {
	if plain.beside == 0 && !f.mayCompress(plain) {
		return plain
	}
	var buf [MaxCodings]uint8
	accepted := q.accepted(buf[:0], f.codings.list)
	for _, beside := range [...]bool{true, false} {
		if !beside && !f.mayCompress(plain) {
			break
		}
		for _, i := range accepted {
			w := want{&f.codings.list[i], plain, beside}
			bit := uint32(1) << i
			if beside && plain.beside&bit == 0 || !beside && (w.coding.Compress == nil || plain.dull.Load()&bit != 0) {
				continue
			}
			e, err := f.findAs(q, now, w)
			if err == nil {
				plain.Release()
				return e
			}
			if err == errDull {
				plain.dull.Or(bit)
			}
		}
	}
	return plain
}

// mayCompress reports whether a form of e that is made on the fly would be kept.
func (f *Store) mayCompress(e *Entry) bool {
	k := &f.codings
	return k.compresses && e.kept && e.Head.text && e.Length >= k.least && e.Length <= k.most
}

// besides finds out which files compressed beforehand stand beside the one called name, an Entry.name,
// that q asks for. It may park.
func (f *Store) besides(q *Request, name string, plain *identity, ctype string) (set uint32) {
	if !f.codings.suffixes || !Compressible(ctype) && ctype != contenttype.Unknown {
		return 0
	}
	for i := range f.codings.list {
		suffix := f.codings.list[i].Suffix
		if suffix == "" {
			continue
		}
		fd, file, err := f.openBeside(q, &toLook, name, suffix)
		if err != nil {
			continue
		}
		var id identity
		err = id.read(fd)
		closeEither(fd, file)
		if err == nil && id.kind() == nil && id.size < plain.size && id.mtime >= plain.mtime-staleBeside {
			set |= 1 << i
		}
	}
	return set
}

// compress makes the wanted form from the file itself, for a flight.
func (f *Store) compress(q *Request, fl *flight, w want) (e *Entry, err error) {
	err = errLost // if the runtime is closing
	defer func() { fl.land(e, err, e != nil, f.Now()) }()
	if !Compressing.TryAcquire(1) {
		err = errNotKept
		return nil, err
	}
	defer Compressing.Release(1)
	e, err = f.makeCoded(q, fl, w)
	return e, err
}

func (f *Store) makeCoded(q *Request, fl *flight, w want) (*Entry, error) {
	plain := w.plain
	_, hash := f.Caches.Shard(h1.Bytes(fl.key))
	if !fl.shard.welcome(plain.Length/4, hash) {
		return nil, errNotKept
	}
	if plain.Young || !plain.Full && plain.id.young() {
		return nil, errNotKept
	}
	src, err := plain.content()
	if err != nil {
		return nil, err
	}
	var coded []byte
	task.Offload(func() { coded, err = w.coding.Compress(src) })
	if err != nil {
		q.Log.LogRequest("the file could not be compressed", "coding", w.coding.Name, "error", err)
		return nil, errDull
	}
	if int64(len(coded)) > plain.Length-plain.Length/16 {
		return nil, errDull
	}
	made := &Entry{Shard: fl.shard, Key: fl.key, id: plain.id, Length: int64(len(coded)), FD: -1, Full: true, kept: true}
	made.users.Store(1)
	made.checked.Store(f.Now())
	made.Head.Modified = plain.Head.Modified
	made.describe(f, plain.name, plain.Head.Type, &w, crc32.ChecksumIEEE(coded))
	if !fl.shard.fits(made) {
		return nil, errDull
	}
	if !fl.shard.reserve(made, hash) {
		return nil, errNotKept
	}
	for _, p := range made.Parts {
		coded = coded[copy(p, coded):]
	}
	return made, nil
}

// content is a copy of the whole content: what is in the cache may go away while a goroutine that
// no request waits for is still at it.
func (e *Entry) content() ([]byte, error) {
	all := make([]byte, 0, e.Length)
	if e.Full {
		for _, p := range e.Parts {
			all = append(all, p...)
		}
		return all, nil
	}
	for int64(len(all)) < e.Length {
		n, err := e.ReadAt(all[len(all):e.Length], int64(len(all)))
		if n <= 0 {
			return nil, errors.Join(ErrShrank, err)
		}
		all = all[:len(all)+n]
	}
	var after identity
	if err := after.read(e.FD); err != nil || after != e.id {
		return nil, errors.Join(ErrShrank, err)
	}
	return all, nil
}

// accepted appends the positions in list of the codings that the client accepts, best first.
func (q *Request) accepted(to []uint8, list []Coding) []uint8 {
	var a h1.Acceptance
	b := q.Text
	for i := range q.Head.Fields {
		one := &q.Head.Fields[i]
		if one.Name.To-one.Name.From == uint32(len("accept-encoding")) && h1.TokenIs(one.Name.Of(b), "accept-encoding") {
			a.Take(one.Value.Of(b), len(list), func(i int) string { return list[i].Name })
		}
	}
	return a.Ranked(to, len(list))
}

// Compressible reports whether content of this type gets smaller.
func Compressible(ctype string) bool {
	name, _, _ := strings.Cut(ctype, ";")
	if strings.HasPrefix(name, "text/") || strings.HasSuffix(name, "+xml") || strings.HasSuffix(name, "+json") {
		return true
	}
	switch name {
	case "application/json", "application/javascript", "application/xml", "application/wasm", "application/x-ndjson",
		"font/ttf", "font/otf", "application/vnd.ms-fontobject", "image/vnd.microsoft.icon", "image/x-icon", "image/bmp",
		"application/yaml", "application/toml", "application/sql":
		return true
	}
	return false
}

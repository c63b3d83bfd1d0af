package main

import (
	"container/list"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/knot"
	"golang.org/x/sys/unix"
)

// directFiles serves files past the page cache (O_DIRECT), and keeps the contents of those last asked for
// itself, as a server does that wants to decide what stays in memory. It is for one loop, so that no lock is
// needed: all fields are loop-private.
type directFiles struct {
	root string
	room int64                    // bytes left for contents
	kept map[string]*list.Element // of *directFile
	used list.List                // the last used first
}

type directFile struct {
	name string
	data []byte // with the room behind it that O_DIRECT needs
}

func (d *directFiles) serve(x *knot.Ctx) error {
	name := x.Path()
	if e := d.kept[name]; e != nil {
		d.used.MoveToFront(e)
		return x.Send(200, "text/plain", e.Value.(*directFile).data)
	}
	if !filepath.IsLocal(name[1:]) {
		return x.SendError(404)
	}
	f, err := aio.OpenFile(filepath.Join(d.root, name), os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return x.SendError(404)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := int(info.Size())
	data := aio.AlignedBuffer((size + aio.BufferAlignment - 1) / aio.BufferAlignment * aio.BufferAlignment)
	if n, err := f.ReadAt(data, 0); n < size {
		return err
	}
	d.keep(&directFile{name, data[:size]})
	return x.Send(200, "text/plain", data[:size])
}

// keep keeps a file, and lets those go that were not used for longest.
func (d *directFiles) keep(f *directFile) {
	if d.kept[f.name] != nil { // another task was faster
		return
	}
	d.kept[f.name] = d.used.PushFront(f)
	for d.room -= int64(cap(f.data)); d.room < 0; {
		last := d.used.Remove(d.used.Back()).(*directFile)
		delete(d.kept, last.name)
		d.room += int64(cap(last.data))
	}
}

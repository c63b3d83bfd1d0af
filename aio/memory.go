//go:build linux

package aio

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// Some file systems can't tell whether a read would wait, tmpfs among them, which has
// everything in memory. Its files are read and written on the loop, like the page cache
// of others.

// memoryDevices has the file systems that have refused RWF_NOWAIT, by device number: uint64 to fileSystem. It has at most
// as many entries as there were file systems at a time.
var memoryDevices sync.Map

// A fileSystem is one that was mounted. When it is mounted no more the kernel gives its device number to another one, but
// not the number of its mount, or, before Linux 6.8, seldom at the same time.
type fileSystem struct {
	mount  uint64
	memory bool
}

// quickFlag returns the flag for an attempt on f that does not wait, or false if there is no such attempt. refused is
// the trait that such attempts are refused in the direction of the transfer. It parks when the first file of a file
// system refuses.
func (f *File) quickFlag(refused uint32) (flag uintptr, ok bool) {
	t := f.traits.Load()
	if t&refused == 0 {
		return unix.RWF_NOWAIT, true
	}
	if t&(traitMemory|traitDisk) == 0 {
		f.learnMemory()
		t = f.traits.Load()
	}
	if t&traitMemory == 0 {
		return 0, false
	}
	if uint32(f.life.Load()/lifeUses)%paceUses == 0 {
		engine.Yield() // see pace
	}
	return 0, true
}

//go:noinline
func (f *File) learnMemory() {
	f.settle()
	device := f.device.Load()
	st := statBuffers.Get().(*unix.Statx_t)
	statxCached(f.fd, unix.STATX_MNT_ID_UNIQUE, st)
	mount := st.Mnt_id
	statBuffers.Put(st)
	value, _ := memoryDevices.Load(device)
	known, ok := value.(fileSystem)
	if (!ok || known.mount != mount) && f.traits.Load()&traitRegular != 0 {
		memory, err := f.onMemory()
		if err != nil {
			return // another time
		}
		known = fileSystem{mount, memory}
		memoryDevices.Store(device, known)
	}
	if known.memory {
		f.traits.Or(traitMemory)
	} else {
		f.traits.Or(traitDisk)
	}
}

// onMemory asks, on a thread, since a file system on a network may take its time to say
// what it is.
func (f *File) onMemory() (bool, error) {
	memory := false
	r := newRequest(opFunc, f.fd).on(f)
	r.fn = func() {
		var st unix.Statfs_t
		if unix.Fstatfs(int(f.fd), &st) == nil {
			memory = st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
		}
	}
	_, err := r.perform()
	return memory, err
}

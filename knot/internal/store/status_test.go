package store

import (
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// What a file system says of a name that it can't have is no failure of the server.
func TestStatusOfErrors(t *testing.T) {
	for err, want := range map[error]int{
		unix.ENOENT: 404, unix.ENOTDIR: 404, unix.ENAMETOOLONG: 404,
		unix.EILSEQ: 404, // not UTF-8: ZFS with utf8only, /%ff
		unix.EINVAL: 404, // not of its characters: exFAT, ext4 with folders that ignore case
		unix.EACCES: 403, unix.ELOOP: 403, unix.EXDEV: 403,
		unix.EMFILE: 503, unix.EIO: 0,
	} {
		testenv.Equal(t, StatusOf(err), want, "%v", err)
		testenv.Equal(t, StatusOf(&fs.PathError{Op: "open", Path: "f", Err: err}), want, "%v of a file", err)
	}
}

//go:build linux

package neterr

import (
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestWhatErrorsAreAbout(t *testing.T) {
	sendfile := func(err error) error {
		return &net.OpError{Op: "sendfile", Net: "tcp", Err: os.NewSyscallError("sendfile", err)}
	}
	for _, test := range []struct {
		err          error
		disk, cutOff bool
	}{
		{sendfile(unix.EIO), true, false},
		{sendfile(unix.EUCLEAN), true, false},
		{sendfile(unix.ESTALE), true, false},
		{&fs.PathError{Op: "read", Path: "/f", Err: unix.EIO}, true, false},
		{sendfile(unix.EPIPE), false, true},
		{sendfile(unix.ECONNRESET), false, true},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, false, false},
		{net.ErrClosed, false, false},
		{&fs.PathError{Op: "read", Path: "/f", Err: context.Canceled}, false, false},
		{io.ErrUnexpectedEOF, false, true},
	} {
		testenv.Equal(t, OfDisk(test.err), test.disk, "%v: of the disk", test.err)
		testenv.Equal(t, CutOff(test.err), test.cutOff, "%v: cut off", test.err)
	}
}

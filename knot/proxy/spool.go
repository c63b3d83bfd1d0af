package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/knot"
)

var errLateBody = errors.New("the time for the request was over before its body had come")

// spool reads a body of unknown length, for a program that is told the length first. Up to 64 KB become the content of the
// request; a longer body goes to a file without a name, which the kernel drops when it is closed. Server.MaxBody bounds both.
// An error is the client's, or has a status that says what is lacking here. It parks.
func (e *exchange) spool() error {
	buf := largeBuffers.Get().(*[largeBuffer]byte)
	defer largeBuffers.Put(buf)
	body := e.x.Body()
	n, err := io.ReadFull(body, buf[:])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		e.content, e.ready = bytes.Clone(buf[:n]), true
		return nil
	}
	for ; err == nil; n, err = body.Read(buf[:]) {
		if e.late() {
			return errors.Join(knot.Status(408), errLateBody)
		}
		if err := e.keep(buf[:n]); err != nil {
			return noRoom(err)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return err
}

// keep appends a piece of the body to the file.
func (e *exchange) keep(piece []byte) error {
	if e.file == nil {
		f, err := aio.CreateTemp("", "knot-body-")
		if err != nil {
			return err
		}
		e.file = f
		if err := aio.Remove(f.Name()); err != nil {
			return err
		}
	}
	n, err := e.file.Write(piece)
	e.fileSize += int64(n)
	return err
}

// noRoom gives an error of keep the status that it means.
func noRoom(err error) error {
	status := knot.Status(500)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		status = 507
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		status = 503
	}
	return fmt.Errorf("%w: the body of a request can't be kept in a file: %w", status, err)
}

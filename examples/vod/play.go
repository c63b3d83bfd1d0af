package main

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/aio"
)

// openDirect opens a file for tasks, past the page cache where there is a way.
func openDirect(name string) (*aio.File, error) {
	file, err := aio.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) { // of a file system that has none
		return aio.Open(name)
	}
	return file, err
}

// getBuffer is a buffer for a piece. Give it back to buffers.
func getBuffer() *[]byte {
	if b, ok := buffers.Get().(*[]byte); ok {
		return b
	}
	b := aio.AlignedBuffer(pieceSize)
	return &b
}

// play serves one connection, of package netpoll or net.
func play(c net.Conn, file io.ReaderAt, m *movie, buf *[]byte, sleep func(time.Duration) error) {
	defer buffers.Put(buf)
	c.SetReadDeadline(time.Now().Add(time.Minute))
	var from int64
	for n, complete := 0, false; !complete; {
		k, err := c.Read((*buf)[n:])
		if err != nil {
			return
		}
		n += k
		if from, complete, err = parse((*buf)[:n]); err != nil {
			c.Write(refusal(err))
			return
		}
	}
	if _, err := io.WriteString(c, responseHead); err != nil {
		return
	}
	began := time.Now()
	for sent := int64(0); ; sent += pieceSize {
		if wait := m.due(sent) - time.Since(began); wait > 0 {
			if sleep(wait) != nil {
				return
			}
		}
		if _, err := file.ReadAt(*buf, m.at(from, sent)); err != nil {
			return
		}
		c.SetWriteDeadline(time.Now().Add(time.Minute))
		if _, err := c.Write(*buf); err != nil {
			return
		}
	}
}

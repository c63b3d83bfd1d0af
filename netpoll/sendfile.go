//go:build linux

package netpoll

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

const (
	// sendfileMax is how many bytes one sendfile(2) is given at most, and how many are looked for in memory at once.
	sendfileMax = 1 << 20
	// fetchMax is how many bytes are waited for before sending begins or goes on.
	fetchMax = 64 << 10
	// sendfileRaw is how much of what is in memory one sendfile(2) is given, in bytes, before it is cut to whole
	// segments (fileSend.piece): some 50 µs in which the Go scheduler does not know that the loop is in the kernel.
	// Then other tasks of the loop run: longer calls would keep their connections waiting. Congestion control that
	// paces costs the kernel a timer for each packet, whatever the size (ADR 0018).
	sendfileRaw = 512 << 10
	// reportEvery is after how many bytes Moved is called.
	reportEvery = 256 << 10
	// readAhead is how far reading may be ahead of sending, in bytes, at most. It starts
	// with firstAhead and doubles: most files are short, and memory may be too.
	readAhead  = 2 << 20
	firstAhead = 4 * fetchMax
)

// eagerPages are Pages that can also begin to read and return at once. Ahead never parks.
type eagerPages interface {
	Ahead(off, n int64)
}

// movingPages are Pages that are told each time that reportEvery bytes or more have been sent. Moved never parks.
type movingPages interface {
	Moved()
}

// SendFile sends head and then n bytes of the file fd from offset off on (sendfile(2)),
// and returns how many bytes of the file it sent. A piece that is not in memory is waited for
// by parking, not by stopping the loop, and read a little ahead of what is sent. With
// nil pages the file is taken to be in memory, and the loop waits where it is not. The
// file's own offset is neither used nor moved. If the file is shorter than it should be
// the error is io.ErrUnexpectedEOF.
//
// fd must stay open until SendFile returns, and no other caller should write to the
// connection meanwhile. It parks.
func (i *inner) SendFile(head []byte, fd int, off, n int64, pages ownconn.Pages) (int64, error) {
	c := (*Conn)(i)
	s := fileSend{c: c, pages: pages, fd: fd, off: off, left: max(n, 0), ahead: firstAhead, piece: sendfileRaw}
	s.eager, _ = pages.(eagerPages)
	s.moving, _ = pages.(movingPages)
	if len(head) > 0 {
		flags := 0
		if s.left > 0 {
			flags = unix.MSG_MORE // the file follows at once
		}
		if _, err := c.d.send(head, flags, false); err != nil {
			return 0, c.opError("write", "write", err)
		}
	}
	c.d.spare(s.left)
	if s.left > s.piece {
		s.piece = wholeSegments(c.d.segment())
	}
	err := s.run()
	if err != nil && err != io.ErrUnexpectedEOF {
		err = c.opError("sendfile", "sendfile", err)
	}
	return s.sent, err
}

// A fileSend is one SendFile under way. Only its caller touches it.
type fileSend struct {
	c        *Conn
	pages    ownconn.Pages
	eager    eagerPages  // pages, if they are; else nil
	moving   movingPages // likewise
	fd       int
	piece    int64 // bytes after which other tasks run
	off      int64 // next byte to send
	left     int64
	sent     int64
	asked    int64 // end of what has been asked for ahead
	ahead    int64 // how far to go ahead next
	burst    int64 // bytes sent since other tasks ran
	reported int64 // value of sent when moving was last told
	blind    bool  // the kernel does not tell what is in memory
}

func (s *fileSend) run() error {
	for s.left > 0 {
		n := min(s.left, s.most())
		if s.pages != nil {
			inMemory, err := s.available(n)
			if err != nil {
				return err
			}
			s.readOn()
			if inMemory <= 0 {
				if err := s.copy(n); err != nil {
					return err
				}
				continue
			}
			n = min(n, inMemory)
		}
		if err := s.send(n); err != nil {
			return err
		}
	}
	return nil
}

// most returns how many bytes one call is given at most: as many pieces as sendfileMax has.
func (s *fileSend) most() int64 { return sendfileMax / s.piece * s.piece }

// send sends n bytes, or less if what is known of them may not be true any more.
func (s *fileSend) send(n int64) error {
	// Pages that had to be read a moment ago may still be being read in places.
	hot, most := s.pages != nil && s.asked == 0, s.most() // most: until other tasks run; a call may send less than asked for
	if hot {
		most = s.piece
	}
	for n > 0 {
		k, err := s.c.d.sendfilePart(s.fd, s.off, min(n, most-s.burst), hot)
		if err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP {
			return s.copy(n)
		}
		if err != nil {
			return err
		}
		if s.noteSent(k); k == 0 {
			return nil
		}
		n -= k
	}
	return nil
}

// noteSent counts k bytes as sent, and lets other tasks run after a piece without a wait. k is 0 if the socket had no room
// and has some again.
func (s *fileSend) noteSent(k int64) {
	s.off += k
	s.sent += k
	s.left -= k
	if s.moving != nil && s.sent-s.reported >= reportEvery {
		s.reported = s.sent
		s.moving.Moved()
	}
	if s.burst += k; k == 0 {
		s.burst = 0
	} else if s.burst >= s.piece && s.left > 0 {
		s.burst = 0
		engine.Yield()
	}
}

// available returns how many of the next n bytes are in memory, after waiting for the first
// of them; 0 if that can't be told, as on some file systems.
func (s *fileSend) available(n int64) (int64, error) {
	inMemory := s.pages.Resident(s.off, n)
	if inMemory > 0 {
		return inMemory, nil
	}
	if s.blind = s.blind || inMemory < 0; s.blind {
		return 0, nil
	}
	n = min(n, fetchMax)
	s.asked = max(s.asked, s.off+n)
	s.readOn()
	if err := s.pages.Prefetch(s.off, n); err != nil {
		return 0, err
	}
	inMemory = s.pages.Resident(s.off, n)
	s.blind = inMemory <= 0
	return max(inMemory, 0), nil
}

// readOn keeps the reading ahead of the sending, once a part was missing.
func (s *fileSend) readOn() {
	end := s.off + s.left
	if s.eager == nil || s.asked == 0 || s.asked >= end || s.asked-s.off > s.ahead/2 {
		return
	}
	from := max(s.asked, s.off)
	s.asked = min(s.off+s.ahead, end)
	s.eager.Ahead(from, s.asked-from)
	s.ahead = min(2*s.ahead, readAhead)
}

// copy sends up to n bytes through memory.
func (s *fileSend) copy(n int64) error {
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	n = min(n, copySize)
	var k int
	var err error
	if s.pages != nil {
		k, err = s.pages.ReadAt(buf[:n], s.off)
	} else {
		k, err = unix.Pread(s.fd, buf[:n], s.off)
	}
	switch {
	case k > 0:
		k, err = s.c.d.send(buf[:k], 0, false)
		s.noteSent(int64(k))
		return err
	case err == unix.EINTR:
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// sendfilePart makes one attempt to send n bytes of fd. 0 and no error: there was no
// room, and there is some now; what was in memory before may not be any more. The Go scheduler
// is told unless the file is hot, has just been seen in memory: a call that waits unseen would stop
// the garbage collector, and with it the whole process. But if it is told it may take the processor
// from any call of more than 20 µs, which the loop then has to get back from another thread.
func (d *desc) sendfilePart(fd int, off, n int64, hot bool) (int64, error) {
	sent, err := d.part(func() (int64, syscall.Errno) {
		r, e := sys.SendFile(d.fd, fd, off, n, hot)
		if e == 0 && r == 0 {
			return -1, 0
		}
		return int64(r), e
	})
	if sent < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return sent, err
}

const (
	// spareFrom is the least number of bytes before which the connection is looked at.
	spareFrom = 64 << 10
	// tinySegment is less than any network asks for: it is the client's window that is small.
	tinySegment = 1000
	// spareUnsent is how much may then wait in the send buffer, in bytes.
	spareUnsent = 16 << 10
)

// spare is called before n bytes are sent, and looks at a connection once: a window only gets larger.
// Data that waits in the send buffer is cut into segments of half of the receiver's window at most, and a client may have
// one of 512 bytes: then 2 MB of a file cost over a millisecond of processor time at once, and as much memory again
// (TCP_NOTSENT_LOWAT, tcp(7)).
func (d *desc) spare(n int64) {
	if n < spareFrom || d.kind != kindTCP || d.flags.Load()&flagMeasured != 0 || d.use() != nil {
		return
	}
	defer d.unuse()
	d.flags.Or(flagMeasured)
	if size := d.segment(); 0 < size && size < tinySegment {
		sys.SetOption(int(d.fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, spareUnsent) // without it all still works
	}
}

// wholeSegments returns sendfileRaw less what is not a whole segment of size bytes. A piece that ends within a segment
// ends with a small packet, which costs the kernel as much as a whole one. Sizes of 0, unknown, or above sendfileRaw change nothing.
func wholeSegments(size int64) int64 {
	if size <= 0 || size > sendfileRaw {
		return sendfileRaw
	}
	return sendfileRaw / size * size
}

// segment returns how many bytes a segment of the connection holds at most, 0 if that can't be told.
func (d *desc) segment() int64 {
	if d.kind != kindTCP || d.use() != nil {
		return 0
	}
	defer d.unuse()
	size, err := sys.Option(int(d.fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	if err != nil {
		return 0
	}
	return int64(size)
}

// part calls try once if there is room, and otherwise waits until there is. It returns
// 0 and no error after a wait or when try met EAGAIN or EINTR.
func (d *desc) part(try func() (int64, syscall.Errno)) (n int64, err error) {
	waited := d.write.p.Load() != ready
	_, err = d.attemptLocked(writeSide, engine.ReasonWrite, func() (e syscall.Errno) {
		if waited {
			return 0
		}
		// Also after a short sendfile another attempt is worthwhile: it may have come to the end of the file, and only
		// that attempt tells.
		if n, e = try(); e != 0 {
			n = 0
		}
		if waited = e == unix.EAGAIN; e == unix.EINTR {
			e = 0
		}
		return e
	})
	return n, err
}

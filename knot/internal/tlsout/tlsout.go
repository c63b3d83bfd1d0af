// Package tlsout sends what crypto/tls has encrypted while crypto/tls is not in the middle of something.
//
// A tls.Conn writes to the connection below it with its lock of writers held, for which a reader waits that has an alert
// to send, or the answer to a key update: natively, as it is a sync.Mutex. A task that waits there for a client that does not
// read would so stop the loop on which it ought to go on. An Out is between the two: the tls.Conn writes into memory, and
// what has been gathered there is sent when its lock has been left. It is fewer system calls, too, as the first records of
// a tls.Conn are small.
package tlsout

import (
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/task"
)

const (
	// piece is how much is encrypted and sent at a time, in bytes of the program's.
	piece = 32 << 10
	// leastPiece is the same while the other end takes nothing: it stays in memory until it does.
	leastPiece = 4 << 10
	// smallBuffer is the size of a buffer that holds leastPiece, encrypted: a record more or two.
	smallBuffer = leastPiece + 512
	// freshRoom is how many bytes a new socket takes at least: tcp(7), tcp_wmem.
	freshRoom = 12 << 10
)

// mostLeft is how much a reader leaves to a task that is sending, in bytes; then it waits for that.
const mostLeft = 64 << 10

// closeTime is how long the end of a connection may take to be sent; it is that of crypto/tls.
const closeTime = 5 * time.Second

// An Out is the way out of a tls.Conn. Its methods may be called from anywhere. A method that sends waits for the call
// before it, but for Flush and Close.
type Out struct {
	raw     net.Conn // fixed
	roomy   roomy    // raw, if it can; fixed
	sending task.Mutex
	err     error // of the first write that has failed; guarded by sending
	room    int   // bytes that raw is known to take without a wait; guarded by sending

	adding   sync.Mutex // never held across a write
	gathered *[]byte    // encrypted and not sent; nil: nothing; guarded by adding
}

// A roomy connection can tell how many bytes it takes without a wait, as those of package netpoll.
type roomy interface{ WriteRoom() int }

var (
	smallBuffers = sync.Pool{New: func() any { b := make([]byte, 0, smallBuffer); return &b }}
	buffers      = sync.Pool{New: func() any { b := make([]byte, 0, piece+1024); return &b }}
)

// Init says where what is encrypted goes.
func (o *Out) Init(raw net.Conn) {
	o.raw, o.room = raw, freshRoom
	o.roomy, _ = ownconn.Of(raw).(roomy)
}

// Write gathers p. It is for the tls.Conn, and never parks.
func (o *Out) Write(p []byte) (int, error) {
	o.adding.Lock()
	defer o.adding.Unlock()
	switch b := o.gathered; {
	case b == nil && len(p) <= smallBuffer:
		o.gathered = smallBuffers.Get().(*[]byte)
	case b == nil:
		o.gathered = buffers.Get().(*[]byte)
	case cap(*b) == smallBuffer && len(*b)+len(p) > smallBuffer:
		o.gathered = buffers.Get().(*[]byte)
		*o.gathered = append(*o.gathered, *b...)
		release(b)
	}
	*o.gathered = append(slices.Grow(*o.gathered, len(p)), p...)
	return len(p), nil
}

// release gives a buffer back.
func release(b *[]byte) {
	switch size := cap(*b); {
	case size == smallBuffer:
		*b = (*b)[:0]
		smallBuffers.Put(b)
	case size <= 2*piece:
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// left is how much has been gathered, in bytes.
func (o *Out) left() int {
	o.adding.Lock()
	defer o.adding.Unlock()
	if o.gathered == nil {
		return 0
	}
	return len(*o.gathered)
}

// take returns what has been gathered, nil if that is nothing.
func (o *Out) take() *[]byte {
	o.adding.Lock()
	defer o.adding.Unlock()
	b := o.gathered
	o.gathered = nil
	return b
}

// Send encrypts p by t, whose way out o is, and sends it. It may park. After an error every other Send has the same one, as
// part of a record may have been sent.
func (o *Out) Send(t *tls.Conn, p []byte) (n int, err error) {
	o.sending.Lock()
	for err = o.err; err == nil; {
		var m int
		if m, err = t.Write(p[n : n+o.next(len(p)-n)]); err == nil {
			err = o.send()
		}
		if err == nil {
			n += m
		}
		if n == len(p) {
			break
		}
	}
	o.sending.Unlock()
	o.Flush() // what a reader has left for this task
	return n, err
}

// next is how many of n bytes to encrypt and send next.
func (o *Out) next(n int) int {
	n = min(n, piece)
	if n <= leastPiece || o.roomy == nil {
		return n
	}
	if n > o.room { // the other end may have taken something
		o.room = o.roomy.WriteRoom()
	}
	return min(n, max(o.room, leastPiece))
}

// Flush sends what has been gathered, unless a task is sending, which does it then, and it is not much. It may park. An error
// is that of the first write that has failed.
func (o *Out) Flush() (err error) {
	for left := o.left(); left > 0; left = o.left() {
		if left > mostLeft {
			o.sending.Lock()
		} else if !o.sending.TryLock() {
			break
		}
		err = o.send()
		o.sending.Unlock()
	}
	return err
}

// send sends all that has been gathered. It needs sending.
func (o *Out) send() error {
	for b := o.take(); b != nil; b = o.take() {
		if o.err == nil {
			_, o.err = o.raw.Write(*b)
			o.room -= len(*b)
		}
		release(b)
	}
	return o.err
}

// CloseWrite ends t's side, behind a Send that is under way. If the end can't be sent in 5 s it returns an error. It may park.
func (o *Out) CloseWrite(t *tls.Conn) error {
	o.sending.Lock()
	err := o.end(t)
	o.sending.Unlock()
	o.Flush() // what a reader has left for this task
	return err
}

func (o *Out) end(t *tls.Conn) error {
	if err := t.CloseWrite(); err != nil {
		return err
	}
	o.raw.SetWriteDeadline(time.Now().Add(closeTime))
	return o.send()
}

// Close tells the other end, if there was a handshake and no task is sending, and closes the connection. It may park.
func (o *Out) Close(t *tls.Conn) error {
	if o.sending.TryLock() {
		o.end(t) // the other end may have gone
		o.sending.Unlock()
	}
	return o.raw.Close()
}

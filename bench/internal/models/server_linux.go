package models

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// A Model says how many threads read and how many answer. One more thread accepts.
type Model struct {
	Network int  // threads that read; 0: the accepting thread reads
	Payload int  // threads that find the answer and write it; 0: the reading threads do
	Own     bool // network thread i gives work to payload thread i only; else to each in turn
}

// Models are the arrangements that are compared, by the paper's name and the numbers of threads.
var Models = map[string]Model{
	"sped":      {},
	"symped-1":  {Network: 1},
	"symped-2":  {Network: 2},
	"amped-0-2": {Payload: 2},
	"amped-1-2": {Network: 1, Payload: 2},
	"seda-s-1":  {Network: 1, Payload: 1, Own: true},
	"seda-s-2":  {Network: 2, Payload: 2, Own: true},
	"seda-2-4":  {Network: 2, Payload: 4},
}

// Threads is how many threads the model has in all.
func (m Model) Threads() int { return 1 + m.Network + m.Payload }

// A conn is a connection. in belongs to its reader.
type conn struct {
	in []byte
	mu sync.Mutex
	fd int // its reader closes it with mu locked; -1: closed
}

// A job is a whole request, for a payload thread.
type job struct {
	c       *conn
	request []byte
}

// A queue is what a payload thread has to do. A thread that has several jobs for it,
// and one that takes them, takes the lock once.
type queue struct {
	mu   sync.Mutex
	more *sync.Cond
	jobs []job // guarded by mu
}

// A reader is the thread that reads from some connections.
type reader struct {
	s      *server
	epoll  int
	mu     sync.Mutex
	conns  map[int]*conn // guarded by mu, as another thread accepts
	queues []*queue      // of payload threads; none: answers itself
	turn   int
	jobs   [][]job // for each queue, of one round of events
	answer []byte
}

type server struct {
	store  *Store
	failed chan error
}

// Serve serves the connections of a listening socket, until something fails.
func Serve(listener int, m Model, store *Store) error {
	s := &server{store: store, failed: make(chan error, m.Threads())}
	queues := make([]*queue, m.Payload)
	for i := range queues {
		queues[i] = &queue{}
		queues[i].more = sync.NewCond(&queues[i].mu)
		s.thread(func() error { s.work(queues[i]); return nil })
	}
	readers := make([]*reader, max(m.Network, 1))
	for i := range readers {
		epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return fmt.Errorf("epoll_create1: %w", err)
		}
		r := &reader{s: s, epoll: epoll, conns: make(map[int]*conn), queues: queues}
		if m.Own {
			r.queues = queues[i : i+1]
		}
		r.jobs = make([][]job, len(r.queues))
		readers[i] = r
	}
	if m.Network == 0 {
		if err := unix.EpollCtl(readers[0].epoll, unix.EPOLL_CTL_ADD, listener, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(listener)}); err != nil {
			return fmt.Errorf("epoll_ctl: %w", err)
		}
		if err := unix.SetNonblock(listener, true); err != nil {
			return err
		}
		s.thread(func() error { return readers[0].run(listener) })
		return <-s.failed
	}
	for _, r := range readers {
		s.thread(func() error { return r.run(-1) })
	}
	s.thread(func() error {
		for i := 0; ; i++ {
			if err := readers[i%len(readers)].accept(listener); err != nil {
				return err
			}
		}
	})
	return <-s.failed
}

// thread runs fn on a thread of its own.
func (s *server) thread(fn func() error) {
	go func() {
		runtime.LockOSThread()
		s.failed <- fn()
	}()
}

// accept takes one connection and has r read from it.
func (r *reader) accept(listener int) error {
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	switch err {
	case nil:
	case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED:
		return nil
	default:
		return fmt.Errorf("accept: %w", err)
	}
	r.mu.Lock()
	r.conns[fd] = &conn{fd: fd}
	r.mu.Unlock()
	if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// run reads what comes, round after round of events.
func (r *reader) run(listener int) error {
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(r.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == listener {
				if err := r.accept(listener); err != nil {
					return err
				}
				continue
			}
			r.mu.Lock()
			c := r.conns[int(e.Fd)]
			r.mu.Unlock()
			if !r.read(c) {
				r.mu.Lock()
				delete(r.conns, c.fd)
				r.mu.Unlock()
				c.close()
			}
		}
		for i, q := range r.queues {
			q.put(r.jobs[i])
			r.jobs[i] = r.jobs[i][:0]
		}
	}
}

// read takes what has come, and has whole requests answered. It reports whether the connection
// goes on.
func (r *reader) read(c *conn) bool {
	if cap(c.in)-len(c.in) < 2048 {
		c.in = append(make([]byte, 0, 2*cap(c.in)+4096), c.in...)
	}
	n, err := unix.Read(c.fd, c.in[len(c.in):cap(c.in)])
	if err == unix.EAGAIN || err == unix.EINTR {
		return true
	}
	if err != nil || n <= 0 {
		return false
	}
	c.in = c.in[:len(c.in)+n]
	at := 0
	for {
		k, err := requestBytes(c.in[at:])
		if err != nil {
			return false
		}
		if k == 0 || len(c.in)-at < k {
			break
		}
		request := c.in[at : at+k]
		at += k
		if len(r.queues) == 0 {
			r.answer = r.s.store.Answer(r.answer[:0], request)
			c.write(r.answer)
			continue
		}
		i := r.turn % len(r.queues)
		r.turn++
		r.jobs[i] = append(r.jobs[i], job{c, append([]byte(nil), request...)})
	}
	c.in = append(c.in[:0], c.in[at:]...)
	return true
}

// put adds jobs; it takes the lock once.
func (q *queue) put(jobs []job) {
	if len(jobs) == 0 {
		return
	}
	q.mu.Lock()
	q.jobs = append(q.jobs, jobs...)
	q.mu.Unlock()
	q.more.Signal()
}

// work is a payload thread.
func (s *server) work(q *queue) {
	var jobs []job
	var answer []byte
	for {
		q.mu.Lock()
		for len(q.jobs) == 0 {
			q.more.Wait()
		}
		jobs, q.jobs = q.jobs, jobs[:0]
		q.mu.Unlock()
		for i, j := range jobs {
			answer = s.store.Answer(answer[:0], j.request)
			j.c.write(answer)
			jobs[i] = job{}
		}
	}
}

// write writes a response, for which a client that waits for it has room; one that does not is cut off.
func (c *conn) write(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, err := unix.Write(c.fd, data); c.fd >= 0 && (err != nil || n < len(data)) {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // the reader will see the end
	}
}

func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	unix.Close(c.fd)
	c.fd = -1
}

package knot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/capriccio-go/capriccio/netpoll"
)

// Run listens on Addr and serves until ctx ends; it then stops gracefully, as
// Shutdown does, for ShutdownTimeout at most. It returns nil after a stop in
// which every request was answered, otherwise what went wrong. It is meant to
// be the whole main function of a program under capriccio.Run. It parks.
func (s *Server) Run(ctx context.Context) error {
	ln, err := s.listen()
	if err != nil {
		return err
	}
	s.ready()
	ended := make(chan error, 1)
	// Not under the caller's context: its end must not cut off what Shutdown
	// still waits for.
	spawnApart(func() { ended <- s.Serve(ln) })
	offload(func() {
		select {
		case err = <-ended:
		case <-ctx.Done():
		}
	})
	if err != nil {
		s.Close()
		return err
	}
	grace := orDefault(s.ShutdownTimeout, DefaultShutdownTimeout, 0)
	limit, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := s.Shutdown(limit); err != nil {
		return fmt.Errorf("knot: requests still under way after %v: %w", grace, err)
	}
	return nil
}

// ListenAndServe listens on Addr and serves until Shutdown or Close; it then
// returns ErrServerClosed. It needs a running task runtime. It parks.
func (s *Server) ListenAndServe() error {
	ln, err := s.listen()
	if err != nil {
		return err
	}
	return s.Serve(ln)
}

func (s *Server) listen() (net.Listener, error) {
	addr := s.Addr
	if addr == "" {
		addr = DefaultAddr
	}
	return netpoll.Listen("tcp", addr)
}

// Serve accepts connections on ln and serves each until Shutdown or Close; it
// then returns ErrServerClosed. It closes ln. It parks.
//
// A *netpoll.Listener is served by every loop of its runtime. From any other
// one connections are accepted one by one; each is served by a new task if
// Serve is called in a task, by a new goroutine otherwise. A listener of
// package net would block the loop: serve it from a plain goroutine.
func (s *Server) Serve(ln net.Listener) error {
	s.ready()
	defer ln.Close()
	if !s.track(ln) {
		return ErrServerClosed
	}
	defer s.untrack(ln)
	if s.Listening != nil {
		s.Listening(ln.Addr())
	}
	var err error
	if native, ok := ln.(*netpoll.Listener); ok {
		err = netpoll.ServeInline(native, func(nc *netpoll.Conn) { s.take(nc) })
	} else {
		err = s.acceptLoop(ln)
	}
	if s.stopping.Load() {
		return ErrServerClosed
	}
	return fmt.Errorf("knot: serving %v: %w", ln.Addr(), err)
}

// take is ServeConn for a caller that is not to be held up: the task that accepts. A
// task is only started for who is turned away.
func (s *Server) take(nc *netpoll.Conn) {
	c := s.newConn(nc)
	switch s.admit(c) {
	case admitted:
		c.start()
	case turnedAway:
		spawnApart(func() { s.turnAway(c) })
	default:
		nc.Close()
	}
}

func (s *Server) acceptLoop(ln net.Listener) error {
	const longest = time.Second
	pause := time.Duration(0)
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			spawn(func() { s.ServeConn(nc) })
			continue
		case s.stopping.Load() || errors.Is(err, net.ErrClosed):
			return err
		}
		// Out of descriptors, most likely: wait for some to come free.
		pause = min(max(2*pause, 5*time.Millisecond), longest)
		s.errorLog().Error("knot: accept failed", "addr", ln.Addr().String(), "error", err, "retry", pause)
		if err := sleep(pause); err != nil {
			return err
		}
	}
}

// track makes stop close ln.
func (s *Server) track(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return false
	}
	if s.listeners == nil {
		s.listeners = make(map[net.Listener]struct{})
	}
	s.listeners[ln] = struct{}{}
	return true
}

func (s *Server) untrack(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, ln)
}

// Shutdown stops the server gracefully: listeners and idle connections are
// closed at once; a response under way is completed, carries Connection: close
// and is the last of its connection. If ctx ends first, Context of the
// requests still under way ends, their connections are closed, and Shutdown
// returns the error of ctx. The end of the calling task's own context does not
// cut it short. It parks.
func (s *Server) Shutdown(ctx context.Context) error {
	s.ready()
	s.stop()
	var err error
	offload(func() {
		select {
		case <-s.drained:
		case <-ctx.Done():
			err = ctx.Err()
		}
	})
	s.abort()
	return err
}

// Close closes listeners and connections at once. What handlers are doing goes
// on until they next use their connection or Context. It may park for a
// moment.
func (s *Server) Close() error {
	s.ready()
	s.stop()
	s.abort()
	return nil
}

// stop closes what has nothing under way.
func (s *Server) stop() {
	s.stopping.Store(true)
	s.mu.Lock()
	var idle []*conn
	for c := s.first; c != nil; c = c.next {
		if c.state.CompareAndSwap(connIdle, connClosed) {
			idle = append(idle, c)
		}
	}
	var listeners []net.Listener
	for ln := range s.listeners {
		listeners = append(listeners, ln)
	}
	if s.count == 0 {
		s.noneLeft()
	}
	s.mu.Unlock()
	for _, ln := range listeners {
		ln.Close()
	}
	// The task that each of these wakes does the rest.
	for _, c := range idle {
		c.nc.Close()
	}
}

// abort closes every connection, whatever it is doing.
func (s *Server) abort() {
	s.cancel()
	s.clock.close()
	s.mu.Lock()
	var all []*conn
	for c := s.first; c != nil; c = c.next {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.nc.Close()
	}
}

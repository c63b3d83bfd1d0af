//go:build linux

package simserver

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// inUse is what of the process a run must leave as it was, by the names of resources.
func inUse() map[string]int64 {
	all := map[string]int64{}
	for _, r := range admit.Resources() {
		if r.Name() != "progress" { // which only grows
			all[r.Name()] = r.InUse()
		}
	}
	return all
}

// leaks compares with what was there before. Goroutines are counted by testing/synctest,
// which ends the test if one is left.
func (s *Server) leaks() {
	for name, n := range inUse() {
		if was := s.before[name]; n != was {
			s.fault("%d of %q are in use after the end, %d were before", n, name, was)
		}
	}
	if n := s.Net.Open(); n != 0 {
		s.fault("%d descriptors are open after the end", n)
	}
	if n := s.Memory.Held(); n != 0 {
		s.fault("%d bytes of memory are held after the end", n)
	}
	if s.Memory.Killed() {
		s.fault("killed at %v: %d bytes of memory were held, %d is the limit", s.Memory.killed, s.Memory.most, s.Memory.limit)
	}
}

// unanswered reports requests that were neither answered nor their connection closed, and open connections, at the end.
func (s *Server) unanswered(end time.Duration) {
	if s.since() < end {
		return
	}
	if n := s.Net.Sockets(); n > 0 {
		s.fault("%d connections are open at the server, %d at its clients", n, s.Clients.open)
	}
	for r := range s.Clients.pending {
		s.fault("request %s (body %d) of %v has neither been answered nor its connection closed", r.Path, r.Body, r.Sent)
	}
}

// watch looks every second whether there is progress: what has come from clients is read,
// or waits at an entrance for less than Patience.
func (s *Server) watch(end time.Duration) {
	var look func()
	look = func() {
		now := s.since()
		if now >= end {
			return
		}
		for r := range s.Clients.pending {
			if now-r.Sent > s.cfg.Patience {
				s.fault("request %s of %v still waits", r.Path, r.Sent)
			}
		}
		if l := s.Net.forgotten(now - s.cfg.Forgetful); l != nil {
			s.fault("client %d has gone at %v; the server has not closed the connection", l.id, l.leftAt)
		}
		s.After(time.Second, look)
	}
	s.After(time.Second, look)
}

//go:build linux

package simserver

import (
	"bytes"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/feed"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// An asker sends a line again and again, each time when the last has come back.
type asker struct {
	link   *Link
	w      *World
	sent   time.Duration
	worst  time.Duration
	rounds int
}

func (c *asker) connected() { c.ask() }

func (c *asker) ask() {
	c.sent = c.w.Now()
	c.link.Send([]byte("ask\n"))
}

func (c *asker) received([]byte) {
	c.worst = max(c.worst, c.w.Now()-c.sent)
	c.rounds++
	c.w.After(time.Millisecond, c.ask)
}

func (c *asker) ended(syscall.Errno) {}

// A flood is a client that has sent more than is read while the test lasts.
type flood struct {
	link *Link
	all  []byte
}

func (c *flood) connected()          { c.link.Send(c.all) }
func (c *flood) received([]byte)     {}
func (c *flood) ended(syscall.Errno) {}

// Two clients send as fast as the network takes it, and each of their lines takes some work. A
// third, and a task that sleeps, hardly notices.
func TestBusyPeersDoNotStarveTheirLoop(t *testing.T) {
	for _, scheduler := range []string{feed.FIFO, feed.Cohort, feed.Resource} {
		for _, loops := range []int{1, 2} {
			for _, work := range []time.Duration{0, 100 * time.Microsecond} {
				t.Run(fmt.Sprintf("%s/loops=%d/work=%v", scheduler, loops, work), func(t *testing.T) { starve(t, scheduler, loops, work) })
			}
		}
	}
}

func starve(t *testing.T, scheduler string, loops int, work time.Duration) {
	const patience = 20 * time.Millisecond
	lasts := time.Duration(testenv.Rounds(100, 300)) * time.Millisecond
	third := &asker{}
	var read atomic.Int64
	late := make([]time.Duration, loops)
	r := onMix(t, Config{Seed: 1, Loops: loops, Scheduler: scheduler}, 1, func(s *Server, _ *Mix) time.Duration {
		var ln *netpoll.Listener
		s.Runtime.Go(func() {
			var err error
			if ln, err = netpoll.Listen("tcp", "10.0.0.1:81"); err != nil {
				t.Error(err)
				return
			}
			err = netpoll.Serve(ln, func(c *netpoll.Conn) { answerLines(s.World, c, work, &read) })
			testenv.ErrorIs(t, err, net.ErrClosed)
		})
		all := bytes.Repeat([]byte("x"), 40<<20)
		var links []*Link
		s.After(10*time.Millisecond, func() {
			for range 2 * loops {
				c := &flood{all: all}
				c.link = s.Connect(81, Path{Latency: lan.Latency, InRoom: 1 << 30}, c)
				links = append(links, c.link)
			}
			third.w, third.link = s.World, s.Connect(81, lan, third)
			links = append(links, third.link)
		})
		for i := range loops {
			engine.GoOn(s.Runtime.Loop(i), func() {
				for from := s.Now(); s.Now()-from < lasts; {
					due := s.Now() + time.Millisecond
					engine.Sleep(time.Millisecond)
					late[i] = max(late[i], s.Now()-due)
				}
			})
		}
		s.After(lasts, func() {
			for _, l := range links {
				l.Abort()
			}
			s.Runtime.Go(func() { ln.Close() })
		})
		return s.Now() + lasts
	})
	r.check(t, 1)
	if third.rounds < 10 || third.worst > patience {
		t.Errorf("the third client was answered %d times, after %v at worst; want %v at most", third.rounds, third.worst, patience)
	}
	for i, d := range late {
		testenv.AtMost(t, d, patience, "a sleep on loop %d was late", i)
	}
	t.Logf("%d bytes read; third client %d answers, %v at worst; sleeps %v late", read.Load(), third.rounds, third.worst, late)
}

// answerLines echoes short lines and swallows long ones, 4 KB at a time.
func answerLines(w *World, c *netpoll.Conn, work time.Duration, read *atomic.Int64) {
	defer c.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		w.Work(work)
		read.Add(int64(n))
		if n < 1024 {
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

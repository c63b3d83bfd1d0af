//go:build linux

package cookbook

import (
	"bufio"
	"fmt"

	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// A Room sends each line that a member writes to all members.
type Room struct {
	mu      task.Mutex
	members map[*task.Chan[string]]bool
}

// Serve is the handler of a connection: netpoll.Serve(ln, room.Serve).
func (r *Room) Serve(c *netpoll.Conn) {
	defer c.Close()
	lines := task.NewChan[string](16)
	r.join(lines)
	defer r.leave(lines)
	task.Go(func() { // writes while the task of the connection reads
		for line := range lines.All() {
			if _, err := fmt.Fprintln(c, line); err != nil {
				c.Close()
				return
			}
		}
	})
	for in := bufio.NewScanner(c); in.Scan(); {
		r.say(in.Text())
	}
}

func (r *Room) join(lines *task.Chan[string]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.members == nil {
		r.members = map[*task.Chan[string]]bool{}
	}
	r.members[lines] = true
}

func (r *Room) leave(lines *task.Chan[string]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, lines)
	lines.Close()
}

// say does not wait for slow members: a member whose 16 places are taken misses the line.
func (r *Room) say(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for lines := range r.members {
		lines.TrySend(line)
	}
}

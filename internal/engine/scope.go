package engine

import (
	"context"
	"sync"
)

// A scope is a context and the tasks that its end cancels. All tasks spawned by a
// task of a scope belong to it too.
type scope struct {
	ctx  context.Context
	mu   sync.Mutex
	stop func() bool // guarded by mu: undoes context.AfterFunc; nil: not watching
	in   []*Task     // guarded by mu; each task knows its index
	held bool        // guarded by mu: a Group keeps the scope although it may be empty

	outer   *scope // of an Under: that of the Under around it, or nil; fixed
	shields bool   // of a Shield: what is further out does not count; fixed
}

// newScope returns nil if ctx can never end.
func newScope(ctx context.Context) *scope {
	if ctx == nil || ctx.Done() == nil {
		return nil
	}
	return &scope{ctx: ctx}
}

// add enters t, which has not started, into s. The watch over the context begins with
// the first task.
func (s *scope) add(t *Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := t.extend()
	e.scope = s
	e.index = int32(len(s.in))
	s.in = append(s.in, t)
	if s.stop == nil {
		s.stop = context.AfterFunc(s.ctx, s.cancelAll)
	}
}

// remove takes out t, which has ended. With the last task the watch ends.
func (s *scope) remove(t *Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, at := len(s.in)-1, t.extra().index
	s.in[at] = s.in[last]
	s.in[at].extra().index = at
	s.in[last] = nil
	s.in = s.in[:last]
	if last == 0 && !s.held && s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// release ends the holding of s by a Group.
func (s *scope) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	if len(s.in) == 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// setLoop says where t starts; from then on cancelAll finds it.
func (s *scope) setLoop(t *Task, l *Loop) {
	s.mu.Lock()
	t.loop = l
	s.mu.Unlock()
}

// cancelAll runs when the context has ended, on a plain goroutine. Tasks that have
// not started look at the context when they do.
func (s *scope) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.in {
		if l := t.loop; l != nil {
			l.send(message{kind: msgCancel, t: t})
		}
	}
}

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/capriccio-go/capriccio/bgraph"
)

// A top shows a source on a terminal, live.
type top struct {
	src      source
	sur      *surroundings
	term     *terminal
	view     *topView
	keys     chan key
	answers  chan answer
	crashes  chan any // what other goroutines panicked with
	fetching bool
}

// An answer is what came of asking the source.
type answer struct {
	s   *bgraph.Snapshot
	err error
}

// runTop shows src until the user has enough or ctx ends. However it ends, the
// terminal is as it was before.
func runTop(ctx context.Context, set *settings, src source, sur *surroundings) error {
	term, err := newTerminal(sur.stdin, sur.stdout)
	if err != nil {
		return err
	}
	defer term.close()
	// What is wrong from the beginning is better said on the ordinary screen.
	s, err := src.Snapshot(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quit, stop, err := os.Pipe()
	if err != nil {
		return err
	}
	defer quit.Close()
	t := &top{
		src: src, sur: sur, term: term,
		view: &topView{source: src.Name(), interval: set.interval, focus: set.focus, ignore: set.ignore, sort: "now"},
		keys: make(chan key), answers: make(chan answer, 1), crashes: make(chan any, 2),
	}
	t.sortAsAsked(set.sort)
	t.view.feed(s)
	if err := term.enter(); err != nil {
		return errors.Join(err, stop.Close())
	}
	go t.guarded(func() { term.readKeys(quit, t.keys) })
	defer func() {
		term.leave() // before anything else, as a panic may be on its way
		stop.Close()
		for range t.keys { // until it has seen that
		}
	}()
	return t.loop(ctx)
}

func (t *top) sortAsAsked(column string) {
	if column == "" {
		return
	}
	t.view.sort = column
	if column[0] == '-' {
		t.view.sort, t.view.reverse = column[1:], true
	}
}

// guarded runs fn; if it panics, the loop does, once the terminal is as it was.
func (t *top) guarded(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			t.crashes <- fmt.Sprintf("%v\n\n%s", p, debug.Stack())
		}
	}()
	fn()
}

// fetch asks the source, unless it is being asked.
func (t *top) fetch(ctx context.Context) {
	if t.fetching || t.view.paused {
		return
	}
	t.fetching = true
	go t.guarded(func() {
		s, err := t.src.Snapshot(ctx)
		t.answers <- answer{s, err}
	})
}

func (t *top) loop(ctx context.Context) error {
	if err := t.draw(); err != nil {
		return err
	}
	tick := t.sur.clock.After(t.view.interval)
	for {
		act := actNothing
		select {
		case <-ctx.Done():
			return nil
		case p := <-t.crashes:
			panic(p)
		case k, ok := <-t.keys:
			if !ok {
				return nil // the terminal is gone
			}
			act = t.view.press(k)
		case <-t.sur.resized:
		case <-tick:
			t.fetch(ctx)
			tick = t.sur.clock.After(t.view.interval)
			if t.fetching {
				continue // there is something to draw when the answer comes
			}
		case a := <-t.answers:
			t.fetching = false
			t.take(a)
		}
		if act == actQuit {
			return nil
		}
		if err := t.act(ctx, act); err != nil {
			return err
		}
		if err := t.draw(); err != nil {
			return err
		}
	}
}

func (t *top) take(a answer) {
	switch {
	case t.view.paused: // it came too late
	case a.err != nil:
		t.view.fail(a.err, t.sur.clock.Now())
	default:
		t.view.feed(a.s)
	}
}

func (t *top) act(ctx context.Context, act action) error {
	switch act {
	case actResume:
		t.fetch(ctx)
	case actSuspend:
		t.term.leave()
		t.sur.suspend()
		return t.term.enter()
	case actRedraw:
		_, err := t.term.out.WriteString("\x1b[2J")
		return err
	}
	return nil
}

func (t *top) draw() error {
	t.view.width, t.view.height = t.term.size()
	t.view.clampScroll()
	_, err := t.term.out.Write(t.view.draw())
	return err
}

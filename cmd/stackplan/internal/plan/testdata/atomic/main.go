// Command atomic has functions that claim to be atomic, rightly and wrongly.
package main

import (
	"context"
	"os"
	"reflect"
	"sync"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/task"
)

type bank struct {
	mu     task.Mutex
	native sync.Mutex
	sums   map[string]int
	log    func(string)
	done   chan int
	any    sync.Locker
	shared sync.RWMutex
}

// A vault has the methods of its lock.
type vault struct{ sync.Mutex }

// move has nothing to wait for.
//
//capriccio:atomic
func (b *bank) move(from, to string, n int) {
	b.sums[from] -= n
	b.sums[to] += n
	b.note(to)
}

func (b *bank) note(name string) { b.sums["last"] = len(name) }

// locks waits for a lock, two calls down.
//
//capriccio:atomic
func (b *bank) locks(n int) { b.under(n) }

func (b *bank) under(n int) {
	b.mu.Lock()
	b.sums["under"] = n
	b.mu.Unlock()
}

// calls waits in what it calls by value.
//
//capriccio:atomic
func (b *bank) calls() { b.log("x") }

// blocks waits natively.
//
//capriccio:atomic
func (b *bank) blocks() int {
	b.native.Lock()
	defer b.native.Unlock()
	select {
	case n := <-b.done:
		return n
	default:
	}
	return <-b.done
}

// abstracts waits natively for a lock that is known by its methods only.
//
//capriccio:atomic
func (b *bank) abstracts() { b.any.Lock() }

// values waits natively in a method value.
//
//capriccio:atomic
func (b *bank) values() {
	lock := b.native.Lock
	if b.sums["last"] > 0 {
		lock = b.shared.RLocker().Lock
	}
	lock()
}

// reflects waits in what it calls by reflection.
//
//capriccio:atomic
func (b *bank) reflects() { reflect.ValueOf(b).MethodByName("Settle").Call(nil) }

// Settle is called by reflection only.
func (b *bank) Settle() { b.under(0) }

// starts has a task of its own wait, and does not.
//
//capriccio:atomic
func (b *bank) starts() { task.Go(func() { task.Yield() }) }

//capriccio:atomic
func unused() { task.Yield() }

func main() {
	b := &bank{sums: map[string]int{}, done: make(chan int, 3)}
	b.log = func(string) { task.Yield() }
	err := capriccio.Run(context.Background(), func(context.Context) error {
		b.move("a", "b", len(os.Args))
		b.locks(1)
		b.calls()
		b.any = &vault{}
		b.abstracts()
		b.values()
		b.reflects()
		b.done <- 1
		b.starts()
		os.Exit(b.blocks())
		return nil
	})
	if err != nil {
		os.Exit(1)
	}
}

package task_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/task"
)

// run runs main as a task of a runtime with one loop.
func run(main func(ctx context.Context) error) {
	if err := capriccio.Run(context.Background(), main, capriccio.WithLoops(1), capriccio.WithoutSignals()); err != nil {
		fmt.Println(err)
	}
}

func ExampleGo() {
	run(func(context.Context) error {
		hello := task.Go(func() {
			task.Sleep(time.Millisecond)
			fmt.Println("hello from a task")
		})
		fmt.Println("spawned")
		return hello.Join()
	})
	// Output:
	// spawned
	// hello from a task
}

func ExampleGroup() {
	run(func(ctx context.Context) error {
		g, _ := task.NewGroup(ctx)
		g.SetLimit(10)
		squares := make([]int, 4)
		for i := range squares {
			g.Go(func() error {
				squares[i] = i * i
				return nil
			})
		}
		g.Go(func() error { return errors.New("one of them failed") })
		err := g.Wait()
		fmt.Println(squares)
		return err
	})
	// Output:
	// [0 1 4 9]
	// one of them failed
}

func ExampleSelect() {
	run(func(context.Context) error {
		words, quit := task.NewChan[string](0), task.NewChan[struct{}](0)
		task.Go(func() {
			words.Send("some")
			words.Send("words")
			quit.Close()
		})
		for {
			var word string
			switch i, err := task.Select(words.RecvCase(&word), quit.RecvCase(nil)); {
			case i == 0:
				fmt.Println(word)
			case errors.Is(err, task.ErrChanClosed):
				fmt.Println("the end")
				return nil
			default:
				return err
			}
		}
	})
	// Output:
	// some
	// words
	// the end
}

func ExampleOffload() {
	run(func(context.Context) error {
		var size int
		task.Offload(func() { // blocks a goroutine, but no other task
			dir, err := os.ReadDir("/")
			size, _ = len(dir), err
		})
		fmt.Println(size > 0)
		return nil
	})
	// Output: true
}

func ExampleMutex() {
	run(func(context.Context) error {
		var mu task.Mutex
		var wg task.WaitGroup
		total := 0
		for range 100 {
			wg.Go(func() {
				mu.Lock()
				defer mu.Unlock()
				before := total
				task.Yield() // the others run meanwhile, but not in here
				total = before + 1
			})
		}
		wg.Wait()
		fmt.Println(total)
		return nil
	})
	// Output: 100
}

func ExampleUnder() {
	run(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		err := task.Under(ctx, func() error { return task.Sleep(time.Hour) })
		fmt.Println(err)
		return nil
	})
	// Output: context deadline exceeded
}

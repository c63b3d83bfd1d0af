package ressched_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// Jobs enter where the scheduler may refuse them, and say what they hold.
func Example() {
	jobs, err := ressched.NewEntrance("jobs")
	if err != nil {
		log.Fatal(err)
	}
	buffers, err := ressched.NewResource("job buffers", "bytes")
	if err != nil {
		log.Fatal(err)
	}
	job := func() error {
		if err := jobs.Enter(); err != nil { // errors.Is(err, ressched.ErrRefused): too much to do
			return err
		}
		defer jobs.Leave()
		buffers.Acquire(4 << 10)
		defer buffers.Release(4 << 10)
		fmt.Println("in use:", buffers.InUse())
		return nil
	}
	err = capriccio.Run(context.Background(), func(context.Context) error {
		var all task.Group
		all.Go(job)
		return all.Wait()
	}, capriccio.WithoutSignals())
	fmt.Println(err, errors.Is(err, ressched.ErrRefused), buffers.InUse())
	// Output:
	// in use: 4096
	// <nil> false 0
}

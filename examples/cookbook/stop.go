//go:build linux

package cookbook

import (
	"context"
	"errors"
	"time"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// Serve runs server until ctx ends, finishes the requests under way, and then saves. Call it as capriccio.Run's main
// function: Ctrl-C and SIGTERM end ctx.
func Serve(ctx context.Context, server *knot.Server, save func(ctx context.Context) error) error {
	err := server.Run(ctx) // returns when the last request is answered
	limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// Every wait of a cancelled task fails. Shield has waits end with limit instead.
	return errors.Join(err, task.Shield(limit, func() error { return save(limit) }))
}

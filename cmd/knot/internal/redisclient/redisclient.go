// Package redisclient has what all connections to a Redis that several servers share have in common.
package redisclient

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// New makes a client of the Redis at a URL, redis://[:PASSWORD@]HOST:PORT[/DATABASE], rediss:// with TLS, or unix://PATH. It connects only
// when it is used, tries nothing twice, and gives up after patience.
func New(url string, connections int, patience time.Duration) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("want the URL of a Redis, as redis://:PASSWORD@10.0.0.7:6379/0") // err may have the password
	}
	options.PoolSize, options.MaxRetries, options.DisableIdentity = connections, -1, true
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.ContextTimeoutEnabled = patience, patience, patience, true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	redis.SetLogger(silence{}) // of the process: a Redis that is away would have a line each second
	return redis.NewClient(options), nil
}

// silence is where go-redis logs: what it says is in its errors too.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

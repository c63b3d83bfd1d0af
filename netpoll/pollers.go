//go:build linux

package netpoll

import (
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
)

func init() {
	poller.Epoll = newEpoll
	poller.Uring = func() (engine.Poller, error) { return newUring(uringOptions{}) }
}

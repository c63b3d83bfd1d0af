package discovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/filesd"
	"github.com/capriccio-go/capriccio/internal/kube"
)

// A file has a list of targets as Prometheus has them for file_sd.
type file struct {
	path  string
	every time.Duration
	clock kube.Clock
}

func (f *file) follow(ctx context.Context, tell func([]backend, error)) {
	for {
		tell(f.read())
		if !wait(ctx, f.clock, f.every) {
			return
		}
	}
}

// read reads the list. A target without a scheme has that of the label __scheme__, as for Prometheus.
func (f *file) read() (list []backend, err error) {
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	groups, err := filesd.Read(f.path)
	if err != nil {
		return nil, err
	}
	if groups == nil {
		return nil, fmt.Errorf("the file is empty; want [] for a list without targets")
	}
	for _, g := range groups {
		scheme := g.Labels["__scheme__"]
		if scheme == "" {
			scheme = "http"
		}
		for _, to := range g.Targets {
			if !strings.Contains(to, "://") && !strings.HasPrefix(to, "unix:") {
				to = scheme + "://" + to
			}
			list = append(list, backend{to, 1})
		}
	}
	return list, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

// 3.2 GB of files, and a sixteenth of that as memory.
const (
	coldFolders = 640
	coldLimit   = 200_000_000 // bytes
)

// The configuration of nginx is that of hello, but for the files, and for multi_accept: else
// it takes one new client in each turn of its loop, in which it serves hundreds of others.
const nginxFilesConfig = nginxProcess + `events { worker_connections 19900; multi_accept on; }
` + nginxHTTP + `	error_log %[1]s/error.log crit;
	default_type text/plain;
	sendfile on;
	%[4]s
	server {
		listen %[2]s backlog=4096 reuseport;
		root %[3]s;
	}
}
`

// cold is an experiment whose files are mostly not in memory.
type cold struct {
	*run
	tree  *webTree
	root  string
	limit int64 // bytes of the memory group
	more  []any // flags of the client besides, as for flagPairs
}

// newCold writes a tree. It is nil, and that is noted, where no memory group can be made.
func newCold(r *run, experiment string, tree *webTree, limit int64, more ...any) (*cold, error) {
	c := &cold{run: r, tree: tree, root: filepath.Join(r.scratch, "tree"), limit: limit, more: more}
	err := r.prepare(writing(tree.bytes()), func() error {
		if err := proc.CanHave(proc.NewMemoryGroup(limit)); err != nil {
			r.skip(experiment, err)
			c = nil
			return nil
		}
		fmt.Fprintf(r.progress, "writing %d files, %d MB, to %s\n", tree.files(), tree.bytes()/1e6, c.root)
		return tree.write(r.ctx, c.root)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// files is a worker that serves the files.
func (c *cold) files(system string, env []string, args ...string) launcher {
	return c.own(system, env, append([]string{"files", "-root", c.root}, args...)...)
}

// nginxFiles sends the files with an option of its configuration.
func (c *cold) nginxFiles(system, option string) []launcher {
	return c.nginx(system, func(dir, addr string) string { return fmt.Sprintf(nginxFilesConfig, dir, addr, c.root, option) })
}

// contenders start a server for each sample, with no file in memory.
func (c *cold) contenders(launchers []launcher) (all []contender) {
	for _, l := range launchers {
		all = append(all, contender{system: l.system, lacks: webMost[l.system], sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			if err := c.tree.uncache(c.root); err != nil {
				return nil, err
			}
			return c.sample(ctx, l.start, int(p.x), c.round+1, d)
		}})
	}
	return slower(time.Second, all)
}

// sample starts a server in a memory group of its own and has clients ask it.
func (c *cold) sample(ctx context.Context, start func(context.Context) (*server, error), clients, seed int, d time.Duration) (samples []sample, err error) {
	group, err := proc.NewMemoryGroup(c.limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	s, err := start(context.WithValue(ctx, groupKey{}, group))
	if err != nil {
		return nil, err
	}
	defer s.child.Close()
	samples, err = samplesOf(ctx, d, c.ownClient(append([]string{"fetch"}, flagPairs(append([]any{"addr", s.addr, "pid", s.child.PID(),
		"conns", clients, "folders", c.tree.folders, "seed", seed, "warm", d / 3, "for", d - d/3}, c.more...)...)...)...))
	if err != nil {
		if s.killedBy(syscall.SIGKILL, err) {
			err = fmt.Errorf("the kernel killed the server, which wanted more than its %d MB: %w", c.limit/1e6, err)
		}
		return nil, err
	}
	used, err := group.Bytes()
	return append(samples, sample{"memory", "MB", float64(clients), float64(used) / 1e6}), err
}

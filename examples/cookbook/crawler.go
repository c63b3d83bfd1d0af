//go:build linux

package cookbook

import (
	"context"
	"fmt"

	"github.com/capriccio-go/capriccio/task"
)

// Crawl fetches page and all that it leads to, several at a time. fetch returns the pages that a page links to. The
// first error ends the context of all others, and is returned.
func Crawl(ctx context.Context, page string, atATime int64, fetch func(ctx context.Context, page string) ([]string, error)) error {
	var (
		mu      task.Mutex
		seen    = map[string]bool{page: true}
		room    = task.NewSemaphore(atATime)
		all, in = task.NewGroup(ctx)
		visit   func(page string) error
		unseen  = func(links []string) (found []string) {
			mu.Lock()
			defer mu.Unlock()
			for _, link := range links {
				if !seen[link] {
					seen[link] = true
					found = append(found, link)
				}
			}
			return found
		}
	)
	visit = func(page string) error {
		if err := room.Acquire(1); err != nil {
			return err
		}
		links, err := fetch(in, page)
		room.Release(1)
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		for _, link := range unseen(links) {
			all.Go(func() error { return visit(link) })
		}
		return nil
	}
	all.Go(func() error { return visit(page) })
	return all.Wait()
}

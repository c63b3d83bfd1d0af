package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
)

// addCaches makes the caches of a site.
func (b *built) addCaches(c *config.Site, log *slog.Logger, wrong *mistakes) (all cache.Set) {
	var cookies []string
	for _, p := range c.Proxies {
		if p.Sticky != nil {
			cookies = append(cookies, p.Sticky.Cookie)
		}
	}
	scope := c.Name + "\n" + strings.Join(c.Hosts, " ") // sites of different addresses may have the same hosts
	for i, table := range c.Caches {
		table.Cookies = cookies
		one, faults := cache.New(table, scope, size, time.Now, log)
		add := site.NoteIn(&faults)
		if len(c.Proxies) == 0 {
			add("match", errors.New("the site has no proxy whose responses could be kept; want [[site.proxy]] too"))
		}
		for _, other := range b.caches {
			if overlap(table.Folder, other.Folder()) {
				add("folder", fmt.Errorf("another cache has %s; want one folder for each, none within another", other.Folder()))
			}
		}
		wrong.faults(fmt.Sprint("cache.", i+1), faults)
		all = append(all, one)
		b.caches = append(b.caches, one)
	}
	return all
}

// overlap reports whether two folders are the same, or one is within the other; "" is none.
func overlap(a, b string) bool {
	inner, outer := filepath.Clean(a)+"/", filepath.Clean(b)+"/"
	return a != "" && b != "" && (strings.HasPrefix(inner, outer) || strings.HasPrefix(outer, inner))
}

// startCaches starts the caches. A cache whose table is in before too, which may be nil, goes on with the responses of that one.
func (b *built) startCaches(before *built) error {
	for _, c := range b.caches {
		if before != nil {
			for _, old := range before.caches {
				if c.Adopt(old) {
					break
				}
			}
		}
		if err := c.Start(); err != nil {
			return fmt.Errorf("the folder of a cache: %w", err)
		}
	}
	return nil
}

// cacheStats are those of the caches of all sites, if there are any.
func (r *running) cacheStats() (sum cache.Stats, any bool) {
	now := r.now.Load()
	if now == nil {
		return sum, false
	}
	for _, c := range now.caches {
		sum.Add(c.Stats())
	}
	return sum, len(now.caches) > 0
}

// purgePage adds the page that drops what caches keep. Its method is one that a page in a browser can't use without asking
// first (CORS).
func (r *running) purgePage(mux *http.ServeMux) {
	mux.HandleFunc("DELETE /cache", func(w http.ResponseWriter, req *http.Request) {
		url, prefix := req.FormValue("url"), req.FormValue("prefix")
		if (url == "") == (prefix == "") {
			http.Error(w, "say what to drop: /cache?url=https://example.org/path, or /cache?prefix=https://example.org/images/", http.StatusBadRequest)
			return
		}
		dropped := 0
		if now := r.now.Load(); now != nil {
			for _, c := range now.caches {
				n, err := c.Purge(url+prefix, prefix != "")
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				dropped += n
			}
		}
		fmt.Fprintln(w, dropped)
	})
}

package main

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A file and a page by FastCGI come from the one server.
func TestSupportServerHasFilesAndPages(t *testing.T) {
	r := measuringRun(t)
	c := &cold{run: r, tree: newWebTree(1), root: t.TempDir()}
	testenv.Must(t, c.tree.write(t.Context(), c.root))
	var pages []string
	for range responders {
		s := testenv.Need(startServer(t.Context(), "responder", r.self, workerCommand, "fcgi"))(t)
		defer s.child.Close()
		pages = append(pages, s.addr)
	}
	for _, l := range c.supportServers(pages) {
		s := testenv.Need(l.start(t.Context()))(t)
		defer s.child.Close()
		for path, want := range map[string]int64{"page.php": supportPage, c.tree.path(30): c.tree.size(30)} {
			resp, body := testenv.Get(t, http.DefaultClient, "http://"+s.addr+"/"+path)
			if n := int64(len(body)); n != want || resp.StatusCode != 200 || resp.ContentLength != want {
				t.Errorf("%s: %s: %d bytes of %d, %v; want %d", l.system, path, n, resp.ContentLength, resp.Status, want)
			}
		}
	}
}

func TestSupportUsersThinkAfterEachPage(t *testing.T) {
	u := &supportUsers{random: rand.New(rand.NewPCG(1, 1)), left: make([]int, 2)}
	thoughts, sum := 0, time.Duration(0)
	const requests = 60_000
	for range requests {
		if d := u.think(1); d > 0 {
			thoughts++
			sum += d
		}
	}
	if thoughts != requests/(supportFiles+1) || sum < 9000*time.Second || sum > 11000*time.Second {
		t.Errorf("%d requests: %d thoughts of %v in all", requests, thoughts, sum)
	}
	if tree := newZipfTree(4, 2); tree.byRank[0] < 0.7 || tree.byRank[0] > 0.71 { // 144/205
		t.Errorf("the most popular of four has %.3f", tree.byRank[0])
	}
}

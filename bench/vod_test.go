package main

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestBisectFindsTheLargestThatIsGood(t *testing.T) {
	for _, limit := range []int{0, 1, 7, 8, 9, 100, 1000, 3999, 4000, 9999} {
		tried := 0
		got, err := bisect(8, 4000, 20, 2, func(n int) (bool, error) {
			tried++
			return n <= limit, nil
		})
		want := min(limit, 4000)
		if err != nil || got > want || got < want-max(1, want/19) || want > 0 && got == 0 || tried > 22 {
			t.Errorf("limit %d: got %d after %d tries, %v", limit, got, tried, err)
		}
	}
	if _, err := bisect(8, 100, 20, 2, func(int) (bool, error) { return false, errors.New("no") }); err == nil {
		t.Error("an error got lost")
	}
}

func TestPlayerStarvesWhenItRunsOutOfFilm(t *testing.T) {
	now := time.Unix(1000, 0)
	after := func(d time.Duration) time.Time { return now.Add(d) }
	p := player{rate: 100, first: 200}
	p.receive(now, 100)
	p.receive(after(time.Hour), 100) // it had not begun
	if p.starved || !p.playing {
		t.Errorf("%+v: waiting for the first part is not starving", p)
	}
	p.receive(after(time.Hour+2*time.Second), 50)
	p.receive(after(time.Hour+2400*time.Millisecond), 50)
	if p.starved {
		t.Errorf("%+v starved with film left", p)
	}
	p.look(after(time.Hour + 3001*time.Millisecond))
	if !p.starved {
		t.Errorf("%+v played what it has not", p)
	}
}

func TestBodyOf(t *testing.T) {
	testenv.Got(bodyOf([]byte("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody")))(t, 4)
	testenv.Fails(t, testenv.Err(bodyOf([]byte("HTTP/1.1 404 Not Found\r\n\r\n"))), "404 was taken for a film")
}

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
		s := testenv.Need(l.start(t.Context(), needs{}))(t)
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

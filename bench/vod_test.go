package main

import (
	"errors"
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

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestThePictureHasALineForEachServer(t *testing.T) {
	p := picture{phase: time.Second, capacity: 100}
	p.add("net-http", []int64{20, 20, 20, 20, 0, 0, 0, 0, 0, 0, 0, 0})
	p.add("knot", []int64{20, 20, 20, 20, 25, 25, 25, 25, 20, 20, 20, 20})
	svg := p.svg()
	if n := strings.Count(svg, "<polyline"); n != 2 || !strings.Contains(svg, ">knot</text>") {
		t.Errorf("%d lines in %s", n, svg)
	}
	if got := perPhase(p.lines[1]); got != "80, 100, 80" {
		t.Errorf("rates %s", got)
	}
}

// A server that does not answer 200 is told before the load, which could not tell why nothing is answered.
func TestLoadOfAServerThatDoesNotAnswer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	for _, want := range []string{"the answer is 404 Not Found; want 200 OK", "connection refused"} {
		if err := loadServer(server.URL, 1, time.Second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		server.Close()
	}
}

func TestAPhaseIsMadeOfBuckets(t *testing.T) {
	for phase, ok := range map[time.Duration]bool{
		4 * time.Second: true, bucket: true, 0: false, -bucket: false, bucket / 2: false, time.Second + bucket/2: false,
	} {
		if err := checkPhase(phase); (err == nil) != ok {
			t.Errorf("-phase %v: %v", phase, err)
		}
	}
}

func TestEachSecondHasALine(t *testing.T) {
	o := outcomes{inTime: []int64{10, 10, 10, 10, 0, 0, 0, 5}, refused: []int64{0, 0, 0, 0, 20, 20, 20, 20}, sentLate: 200 * time.Millisecond}
	want := `second 1: 40 answered within 100 ms, 0 refused with 503, 60 later or not at all
second 2: 5 answered within 100 ms, 80 refused with 503, 15 later or not at all
requests were sent up to 200ms late: this machine is too busy for that rate, and the counts say little: ask for a lower -rate, or from another machine
`
	if got := o.perSecond(100); got != want {
		t.Errorf("got\n%s", got)
	}
}

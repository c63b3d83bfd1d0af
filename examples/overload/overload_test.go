package main

import (
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

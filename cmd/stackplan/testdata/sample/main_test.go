package main

import (
	"testing"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite/testdata/programs/runner"
)

func TestServe(t *testing.T) {
	got := 0
	if err := runner.Run(func() { got = serve(3) }); err != nil {
		t.Fatal(err)
	}
	if got != 39 {
		t.Errorf("serve(3) = %d, want 39", got)
	}
}

package linked_test

import (
	"testing"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite/testdata/programs/runner"
	"github.com/capriccio-go/capriccio/cmd/stackplan/testdata/features/linked"
)

func TestOutside(t *testing.T) {
	got := 0
	if err := runner.Run(func() {
		got = linked.Call(5)
		got += linked.Call(6)
	}); err != nil {
		t.Fatal(err)
	}
	if got != 13 {
		t.Errorf("it is %d, want 13", got)
	}
	t.Log("linked:", runner.Links() > 0)
}

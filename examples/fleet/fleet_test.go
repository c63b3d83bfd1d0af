package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/simfleet"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestThePictureHasTwoLinesForEachCause, and what is printed says that the fleet comes back.
func TestThePictureHasTwoLinesForEachCause(t *testing.T) {
	var said strings.Builder
	out := filepath.Join(t.TempDir(), "fleet.svg")
	if err := run(&said, out, 10, 1, false); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	causes := simfleet.Causes()
	testenv.Equal(t, strings.Count(string(svg), "<polyline"), 2*len(causes), "lines")
	for _, c := range causes {
		testenv.True(t, strings.Contains(string(svg), c.What) && strings.Contains(said.String(), c.Name), "%s", c.Name)
	}
	testenv.Equal(t, strings.Count(said.String(), "back after"), len(causes), "fleets that come back")
	testenv.Equal(t, strings.Count(said.String(), "does not come back"), len(causes), "fleets that do not")
	if err := run(&said, out, 5, 1, false); err == nil || err.Error() != "-servers is 5; want 10 to 1000" {
		t.Errorf("5 servers: %v", err)
	}
}

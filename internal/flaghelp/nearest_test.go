package flaghelp

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "axc", 1}, {"kitten", "sitting", 3}} {
		testenv.Equal(t, distance(test.a, test.b), test.want, "%q, %q", test.a, test.b)
	}
}

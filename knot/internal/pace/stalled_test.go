package pace

import (
	"math"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestWhoseResponsesEnd: the client that has most of the stalled responses loses them first, and those that have stalled longest.
func TestWhoseResponsesEnd(t *testing.T) {
	var some []Response[int]
	hold := func(client uint32, n int, from int64) {
		for i := range n {
			some = append(some, Response[int]{Client: client, Since: from + int64(i)})
		}
	}
	hold(1, 3, 1)
	hold(2, 2*EndedAtATime, 1000)
	hold(3, 5, 500)
	got := ToEnd(some, math.MaxInt64)
	testenv.Equal(t, len(got), EndedAtATime, "are ended")
	for i, at := range got {
		if at.Client != 2 || at.Since != 1000+int64(i) {
			t.Errorf("number %d is of client %d, since %d", i, at.Client, at.Since)
		}
	}
	testenv.Equal(t, len(ToEnd(some[:0], math.MaxInt64)), 0, "of none")
	few := ToEnd([]Response[int]{{Client: 1}, {Client: 2}, {Client: 2}}, math.MaxInt64)
	testenv.Equal(t, len(few), 2, "of client 2")
	for _, test := range []struct{ one, others, want int }{
		{EndedAtATime - 1, 0, 0}, {EndedAtATime, 0, EndedAtATime}, {100, 99, EndedAtATime}, {100, 101, 0},
	} {
		some = nil
		hold(1, test.one, 1)
		hold(2, test.others/2, 1)
		hold(3, test.others-test.others/2, 1)
		testenv.Equal(t, len(ToEnd(some, 0)), test.want, "stalled for a short time, of one client: are ended")
	}
}

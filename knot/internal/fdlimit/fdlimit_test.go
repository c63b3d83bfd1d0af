package fdlimit

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestConnsLeaveRoom: connections, what handlers have open besides, what the process has open anyway, and
// those that are told that there are too many fit into the limit, with a rest for files.
func TestConnsLeaveRoom(t *testing.T) {
	const most = 100_000
	for _, c := range []struct {
		limit, open int64
		outgoing    int
		want        int
	}{
		{64, 30, 0, 18}, {64, 30, -1, 9}, {64, 30, 4, 14}, {64, 30, 1000, 9},
		{120, 32, 0, 58}, {120, 32, -1, 29}, {120, 32, 20, 38},
		{1024, 34, 0, 734}, {1024, 34, -1, 367},
		{20_000, 34, 0, 19_454}, {20_000, 34, 1000, 18_454}, {20_000, 34, -1, 9727},
		{1 << 20, 34, 0, most}, {1 << 20, 34, -1, most}, {150_000, 34, -1, 74_727},
		{16, 30, 0, 1}, {0, 0, -1, 1},
	} {
		if got := connsOf(c.limit, c.open, most, c.outgoing); got != c.want {
			t.Errorf("%d descriptors, %d open, %d outgoing: %d connections, want %d", c.limit, c.open, c.outgoing, got, c.want)
		}
	}
	for limit := int64(64); limit < 1<<17; limit += limit / 8 {
		for _, outgoing := range []int{0, 100, -1} {
			n := connsOf(limit, 32, most, outgoing)
			others := int64(outgoing)
			if outgoing < 0 || others > int64(n) {
				others = int64(n)
			}
			if used := 32 + int64(n) + others; used+int64(Rejects(n)) > limit {
				t.Errorf("%d descriptors, %d outgoing: %d connections and %d that are told come to more", limit, outgoing, n, Rejects(n))
			}
		}
	}
	testenv.AtLeast(t, openNow(), 3, "descriptors are open")
}

package words

import (
	"math"
	"math/rand/v2"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestDurationText(t *testing.T) {
	for _, c := range []struct {
		n    bgraph.Nanos
		want string
	}{
		{0, "0"}, {1, "1ns"}, {999, "999ns"}, {1000, "1.00µs"}, {9994, "9.99µs"}, {9995, "10.0µs"},
		{99_949, "99.9µs"}, {999_499, "999µs"}, {999_500, "1.00ms"}, {45_600_000, "45.6ms"},
		{999_499_999, "999ms"}, {999_500_000, "1.00s"}, {59_940_000_000, "59.9s"}, {99_949_000_000, "99.9s"},
		{99_950_000_000, "1m40s"}, {185e9, "3m05s"}, {3599e9, "59m59s"}, {3_599_600_000_000, "1h00m"},
		{3600e9, "1h00m"}, {86400e9, "24h00m"}, {2 * 86400e9, "2d"}, {400 * 86400e9, "400d"},
		{math.MaxInt64, "292y"}, {math.MinInt64, "-292y"}, {-1500, "-1.50µs"},
	} {
		testenv.Equal(t, Duration(c.n), c.want, "Duration(%d)", int64(c.n))
	}
	for range 10_000 {
		n := bgraph.Nanos(rand.Int64N(math.MaxInt64) >> rand.IntN(63))
		if got := Duration(n); Width(got) > 7 {
			t.Fatalf("Duration(%d) = %q, wider than 7", int64(n), got)
		}
	}
}

func TestCountText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 999_999: "999,999", 1_000_000: "1.00M", 12_345_678: "12.3M",
		-5000: "-5,000", 1e18: "1.00E", math.MaxInt64: "9.22E", math.MinInt64: "-9.22E",
	} {
		testenv.Equal(t, Count(n), want, "Count(%d)", n)
	}
	testenv.Equal(t, Count(uint64(math.MaxUint64)), "18.4E", "Count(MaxUint64)")
}

func TestRateText(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.004: "0.004", 0.2: "0.20", 12.34: "12.3", 999.4: "999", 999.6: "1,000", 7583.3: "7,583",
		999_999.4: "999,999", 1.5e6: "1.50M", -2: "-2.00", 1e30: "999E", math.Inf(1): "?",
	} {
		testenv.Equal(t, Rate(v), want, "Rate(%g)", v)
	}
}

func TestAmountText(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "bytes", "0 B"}, {1023, "bytes", "1023 B"}, {1024, "bytes", "1.00 KiB"}, {-4096, "bytes", "-4.00 KiB"},
		{1 << 30, "bytes", "1.00 GiB"}, {1e30, "bytes", "999 EiB"}, {12, "", "12"}, {0.25, "", "0.25"},
		{3, "files", "3 files"}, {3, "a unit far too long", "3 a unit… long"}, {math.NaN(), "", "?"},
	} {
		testenv.Equal(t, Amount(c.v, c.unit), c.want, "Amount(%g, %q)", c.v, c.unit)
	}
}

func TestPercentText(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0%", 0.0001: "<0.1%", 0.0151: "1.5%", 0.593: "59.3%", 0.9994: "99.9%", 0.9996: "100%", 1: "100%",
		1.672: "167%", -0.002: "-0.2%", 1e9: ">9999%", math.Inf(1): "?",
	} {
		testenv.Equal(t, Percent(v), want, "Percent(%g)", v)
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"short", 5, "short"}, {"abcdefgh", 5, "ab…gh"}, {"abcdefgh", 4, "ab…h"}, {"abcdefgh", 1, "…"},
		{"abcdefgh", 0, ""}, {"日本語の名前", 7, "日本…前"}, {"ae\u0301iouxyz", 4, "ae\u0301…z"},
	} {
		testenv.Equal(t, Shorten(c.in, c.width), c.want, "Shorten(%q, %d)", c.in, c.width)
	}
	text := "read example.com/日本語/web.(*conn).readHe\u0301ad🙂…"
	for width := range Width(text) + 2 {
		if got := Shorten(text, width); Width(got) > width || !utf8.ValidString(got) {
			t.Errorf("shorten to %d: %q takes %d", width, got, Width(got))
		}
	}
}

func TestCleanText(t *testing.T) {
	for in, want := range map[string]string{
		"web.(*conn).read": "web.(*conn).read",
		"a\tb\r\nc":        "a b  c",
		"\x1b[31mred\x07":  "\ufffd[31mred\ufffd",
		"\u202egnp.exe":    "\ufffdgnp.exe",
		"bad\xff\xfeutf8":  "bad\ufffdutf8",
		"\u0085\u200b\u00ad\ue000\ufffe\u2028日本": "\ufffd\ufffd\ufffd\ufffd\ufffd 日本",
	} {
		got := Clean(in)
		testenv.Equal(t, got, want, "Clean(%q)", in)
		for _, r := range got {
			if !unicode.IsPrint(r) && r != utf8.RuneError {
				t.Errorf("Clean(%q) left %U", in, r)
			}
		}
	}
}

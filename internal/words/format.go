package words

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// How figures and names are written in tables and drawings: short, of about three
// significant digits, and never with a character that could move a cursor.

// Duration is like Nanos.String, but never wider than 7 columns: 1.23µs, 45.6ms,
// 3m05s, 12d.
func Duration(n bgraph.Nanos) string {
	switch {
	case n == 0:
		return "0"
	case n == math.MinInt64:
		return "-292y"
	case n < 0:
		return "-" + Duration(-n)
	case n < 1000:
		return strconv.FormatInt(int64(n), 10) + "ns"
	}
	v := float64(n)
	for _, unit := range []string{"µs", "ms", "s"} {
		v /= 1000
		if v < 999.5 && (unit != "s" || v < 99.95) {
			return threeDigits(v) + unit
		}
	}
	seconds := int64(math.Round(float64(n) / 1e9))
	switch days := seconds / 86400; {
	case seconds < 3600:
		return fmt.Sprintf("%dm%02ds", seconds/60, seconds%60)
	case days < 2:
		return fmt.Sprintf("%dh%02dm", seconds/3600, seconds/60%60)
	case days < 1000:
		return fmt.Sprintf("%dd", days)
	default:
		return fmt.Sprintf("%dy", days/365)
	}
}

// threeDigits is v, 0 or more and below 1000, with three significant digits.
func threeDigits(v float64) string {
	switch {
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

// Count is exact below a million: 434,000; 1.23M above.
func Count[N int | int64 | uint64](n N) string {
	if n < 0 {
		return "-" + magnitude(uint64(-(n+1))+1)
	}
	return magnitude(uint64(n))
}

func magnitude(n uint64) string {
	if n >= 1_000_000 {
		return metric(float64(n))
	}
	digits := strconv.FormatUint(n, 10)
	if len(digits) > 3 {
		return digits[:len(digits)-3] + "," + digits[len(digits)-3:]
	}
	return digits
}

// metric writes v, 1000 or more, with a metric prefix.
func metric(v float64) string {
	for _, prefix := range []string{"k", "M", "G", "T", "P"} {
		v /= 1000
		if v < 999.5 {
			return threeDigits(v) + prefix
		}
	}
	return threeDigits(min(v/1000, 999)) + "E"
}

// Rate writes how often something happens: 0.02, 12.3, 7,583, 1.23M.
func Rate(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "?"
	case v < 0:
		return "-" + Rate(-v)
	case v == 0:
		return "0"
	case v < 1e-6:
		return "<0.000001"
	case v < 0.005:
		return strconv.FormatFloat(v, 'f', int(math.Ceil(-math.Log10(v))), 64)
	case v < 999.5:
		return threeDigits(v)
	case v < 999_999.5:
		return magnitude(uint64(math.Round(v)))
	default:
		return metric(v)
	}
}

// Amount writes an amount in a unit: "4.00 KiB" for bytes, "12" for things.
func Amount(v float64, unit string) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "?"
	case v < 0:
		return "-" + Amount(-v, unit)
	case unit == "bytes":
		return byteCount(v)
	}
	text := Rate(v)
	if v == math.Trunc(v) && v < 1e6 {
		text = magnitude(uint64(v))
	}
	if unit != "" {
		text += " " + Shorten(Clean(unit), 12)
	}
	return text
}

func byteCount(v float64) string {
	if v < 1023.5 {
		return strconv.FormatFloat(v, 'f', 0, 64) + " B"
	}
	for _, unit := range []string{" KiB", " MiB", " GiB", " TiB", " PiB"} {
		v /= 1024
		if v < 999.5 {
			return threeDigits(v) + unit
		}
	}
	return threeDigits(min(v/1024, 999)) + " EiB"
}

// Signed puts a plus before a number that has no minus.
func Signed(text string) string {
	if strings.HasPrefix(text, "-") {
		return text
	}
	return "+" + text
}

// Percent writes a share of 1.
func Percent(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "?"
	case v == 0:
		return "0%"
	case math.Abs(v) < 0.0005:
		return "<0.1%"
	case math.Abs(v) < 0.9995:
		return strconv.FormatFloat(100*v, 'f', 1, 64) + "%"
	case math.Abs(v) < 100:
		return strconv.FormatFloat(100*v, 'f', 0, 64) + "%"
	default:
		return ">9999%"
	}
}

// Ratio is a/b, 0 if there is no b.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Nanos converts v, cut to the range of durations, without its fraction. NaN is 0.
func Nanos(v float64) bgraph.Nanos {
	switch {
	case math.IsNaN(v):
		return 0
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= -math.MaxInt64:
		return -math.MaxInt64
	}
	return bgraph.Nanos(v)
}

// Clean makes names fit for a terminal and for XML: white space becomes a space,
// and what is invisible, moves the cursor, turns the direction of writing or is no
// character becomes U+FFFD.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), r&0xfffe == 0xfffe, r == '\u034f':
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// wide are the blocks whose characters take two columns of a terminal.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1},
		{Lo: 0x2e80, Hi: 0x303e, Stride: 1},
		{Lo: 0x3041, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1},
		{Lo: 0x1f900, Hi: 0x1f9ff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// RuneWidth is the number of columns that r takes.
func RuneWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// Width is the number of columns that s takes.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += RuneWidth(r)
	}
	return n
}

// Shorten cuts s in the middle, so that it takes at most width columns.
func Shorten(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	runes := []rune(s)
	head, tail := 0, len(runes)
	for left, front := width-1, true; ; front = !front {
		at := tail - 1
		if front {
			at = head
		}
		if left -= RuneWidth(runes[at]); left < 0 {
			break
		}
		if front {
			head++
		} else {
			tail--
		}
	}
	for head < tail && head > 0 && RuneWidth(runes[head]) == 0 { // the accent of the last letter
		head++
	}
	for tail < len(runes) && RuneWidth(runes[tail]) == 0 { // an accent without its letter
		tail++
	}
	return string(runes[:head]) + "…" + string(runes[tail:])
}

// Fold breaks s behind a separator where it is wider than width; what is too wide even so is cut.
func Fold(s, separator string, width int) []string {
	var lines []string
	for _, part := range strings.SplitAfter(s, separator) {
		if last := len(lines) - 1; last >= 0 && Width(strings.TrimRight(lines[last]+part, " ")) <= width {
			lines[last] += part
		} else {
			lines = append(lines, part)
		}
	}
	for i := range lines {
		lines[i] = Shorten(strings.TrimRight(lines[i], " "), width)
	}
	return lines
}

// WriteParagraph writes text as an indented paragraph, at most width columns wide but for longer words.
func WriteParagraph(out *bytes.Buffer, text string, width int) {
	const indent = "    "
	column := 0
	for _, word := range strings.Fields(text) {
		word = Clean(word)
		n := Width(word)
		switch {
		case column == 0:
			out.WriteString(indent)
			column = len(indent)
		case column+1+n > width:
			out.WriteString("\n" + indent)
			column = len(indent)
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += n
	}
	out.WriteByte('\n')
}

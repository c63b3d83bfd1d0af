package graphview

import "github.com/capriccio-go/capriccio/bgraph"

// What a program needs that shows a Snapshot in a way of its own.

// Names returns what to call the nodes. Where several would have the same name, as
// different call paths lead to the same wait, what tells them apart is added. They may
// be shown on a terminal.
func Names(s *bgraph.Snapshot) map[bgraph.Key]string { return distinctNames(s) }

// DurationText is a duration with about three significant digits in at most 7 columns:
// 1.23µs, 45.6ms, 3m05s, 12d.
func DurationText(n bgraph.Nanos) string { return durationText(n) }

// CountText is exact below a million, 1.23M above.
func CountText(n int64) string { return countText(n) }

// RateText says how often something happens: 0.02, 12.3, 7,583, 1.23M.
func RateText(v float64) string { return rateText(v) }

// BytesText says how many bytes there are: 12 B, 4.00 KiB.
func BytesText(v float64) string { return bytesText(v) }

// ShortenText cuts text in the middle if it takes more than that many columns of a
// terminal.
func ShortenText(text string, columns int) string { return shorten(text, columns) }

// TextWidth is the number of columns of a terminal that text takes.
func TextWidth(text string) int { return textWidth(text) }

// CleanText makes a name fit for a terminal and for XML.
func CleanText(s string) string { return cleanText(s) }

package graphview

import "github.com/capriccio-go/capriccio/bgraph"

// What a program needs that shows a Snapshot in a way of its own.

// Names returns what to call the nodes. Where several would have the same name, as
// different call paths lead to the same wait, what tells them apart is added. They may
// be shown on a terminal.
func Names(s *bgraph.Snapshot) map[bgraph.Key]string { return distinctNames(s) }

// CountText is exact below a million, 1.23M above.
func CountText(n int64) string { return countText(n) }

// CleanText makes a name fit for a terminal and for XML.
func CleanText(s string) string { return cleanText(s) }

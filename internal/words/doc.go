// Package words writes the figures and the names of blocking graphs, as the tables, findings, drawings and
// exports of package graphview show them: durations, counts and rates in about three digits; names of nodes that
// differ where nodes do; the lines at the head of a graph. A text never has a character that could move a cursor.
//
// A Snapshot is not changed. The functions may be called from any goroutine and never park.
package words

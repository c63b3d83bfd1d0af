// Package graphcompare sets two blocking graphs side by side, of different runs or programs, as data (Compare) and as
// text (Comparison.WriteText). A node of a changed program is found again by its call path where its key has changed.
//
// The Snapshots are not changed. The functions may be called from any goroutine and never park.
package graphcompare

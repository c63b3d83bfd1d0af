// Package graphcompare sets two blocking graphs side by side, of different runs or programs, as data (Compare) and as
// text (Comparison.WriteText). A node of a changed program is found again by its call path where its key has changed.
//
// Judge compares several captures with several others and says which figures differ by more than they vary: a gate for CI.
//
// The Snapshots are not changed. The functions may be called from any goroutine and never park.
package graphcompare

// Package graphview shows blocking graphs, those of package bgraph, to people and to other
// programs: as text (WriteText, WriteSummary), as drawings (WriteSVG, WriteDOT, Layout), for
// flame graphs and profiles (WriteFolded, WriteProfile), as JSON; it compares two of them
// (Compare) and finds what looks wrong (Lint). It needs no runtime, starts no goroutine and
// never parks; a Snapshot that it is given is not changed.
package graphview

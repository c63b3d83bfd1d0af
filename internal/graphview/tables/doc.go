// Package tables writes blocking graphs, those of package bgraph, as text for people: all tables (WriteText), the most
// important lines for a log (WriteSummary), Markdown for an issue (WriteMarkdown), the graph by stages (WriteStages),
// and the tasks and regions of a trace (WriteSpans).
//
// A Snapshot is not changed. The package needs no runtime and starts no goroutine; its functions may be called
// from any goroutine and never park.
package tables

// Package graphview is the folder of the packages that show blocking graphs, those of package bgraph, to
// people and to other programs:
//
//   - tables writes text: all tables, a summary of 40 lines, Markdown, stages, spans;
//   - lint finds what looks wrong;
//   - draw draws SVG images and input for Graphviz;
//   - export writes JSON, folded stacks for flame graphs, and pprof profiles.
//
// It has no code of its own.
package graphview

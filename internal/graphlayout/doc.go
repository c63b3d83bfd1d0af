// Package graphlayout gives every node and edge of a blocking graph a place in a drawing: in layers, so that most
// steps lead from one layer to a lower one and few lines cross (Sugiyama, Tagawa and Toda 1981). Layout does one
// stage after the other, each in a file of its own:
//
//	pick      which nodes and edges are drawn, with their figures and colours (color)
//	text      the size of each box, by its text
//	parts     parts that nothing connects are laid out one by one
//	layers    a layer for each node, circles broken
//	order     the order in each layer, with few crossings
//	place     x and y of each box
//	route     the lines, made straight where that is possible (straight)
//	label     figures on the lines
//
// The same Snapshot gives the same Drawing, and is not changed. The functions may be called from any goroutine and
// never park.
package graphlayout

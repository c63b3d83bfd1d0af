package recorder

// A Config says how much of the blocking graph a runtime learns. Every zero field has a default.
type Config struct {
	// Sampling is N to time one wait in N, and the step after it; counts are always
	// exact. 1: all waits. 0: 20, the ratio of the paper (section 5.2); where steps take less than
	// 400 ns it is 160, and a timed wait counts as eight.
	Sampling int
	// HeapEvery is N to measure the heap that a step allocates on about one wait in N,
	// which costs a microsecond each time; 0: 320; negative: never. It is measured besides
	// while tasks do what they came in for at an entrance, of up to 2,000 tasks a second.
	HeapEvery int
	// MaxNodes bounds the nodes, and MaxEdges the edges and the crossings of each loop. All loops together
	// have at most graphlimits.Edges crossings. What does not find room is counted, see bgraph.Overflow. 0: 4096 and 16384.
	MaxNodes int
	MaxEdges int
}

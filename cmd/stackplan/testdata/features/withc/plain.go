package withc

// area is in a file without C, which may have checkpoints.
//
//go:noinline
func area(n int) int {
	k := wide(n)
	return k + 1
}

//go:noinline
func wide(n int) int {
	var buf [2000]int
	for i := range buf {
		buf[i] = n
	}
	return buf[n]
}

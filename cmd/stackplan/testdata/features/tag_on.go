//go:build special

package main

func tagged(n int) int {
	k := deep(n)
	return -deep(k & 7)
}

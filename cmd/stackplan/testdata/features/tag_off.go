//go:build !special

package main

func tagged(n int) int { return deep(n) }

// Package scc finds the strongly connected components of a graph.
package scc

import "iter"

// Of returns the components of a graph whose nodes are the numbers below n (Tarjan's algorithm); to
// yields where the edges of a node lead. Each node is in one component, alone if it is in no cycle or
// leads to itself only. A component comes after all that it leads to.
func Of(n int, to func(node int) iter.Seq[int]) (components [][]int) {
	index := make([]int, n) // 0: not visited
	low := make([]int, n)
	on := make([]bool, n) // the stack
	var stack []int
	next := 1
	var visit func(v int)
	visit = func(v int) {
		index[v], low[v] = next, next
		next++
		stack, on[v] = append(stack, v), true
		for w := range to(v) {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		var component []int
		for last := -1; last != v; {
			last = stack[len(stack)-1]
			stack, on[last] = stack[:len(stack)-1], false
			component = append(component, last)
		}
		components = append(components, component)
	}
	for v := range n {
		if index[v] == 0 {
			visit(v)
		}
	}
	return components
}

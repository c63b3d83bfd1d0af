//go:build !race

package ressched

const raced = false

package flaghelp

import "strings"

// Nearest is the name that is most like text, "" if none is like it.
func Nearest(text string, names []string) (best string) {
	least := min(max(2, len(text)/3)+1, len(text))
	for _, name := range names {
		if d := distance(strings.ToLower(strings.ReplaceAll(text, "_", "-")), name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many bytes must be put in, left out, replaced or swapped with their neighbours to
// make b of a (optimal string alignment).
func distance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

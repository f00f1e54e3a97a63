// Package spelling finds the word that somebody meant.
package spelling

// Nearest returns the word that takes the fewest edits to become the one written, the first of several; false: none is
// near.
func Nearest(written string, among []string) (nearest string, found bool) {
	least := Limit(written) + 1
	for _, word := range among {
		if d := Distance(written, word); d < least {
			least, nearest, found = d, word, true
		}
	}
	return nearest, found
}

// Limit is how many edits may lie between a word and one that was meant: two would make "on" of "off".
func Limit(written string) int { return max(1, len(written)/3) }

// Distance is how many letters are inserted, deleted, replaced or swapped with the next to make b of a.
func Distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+1)
			if a[i] == b[j] {
				row[j+1] = last[j]
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

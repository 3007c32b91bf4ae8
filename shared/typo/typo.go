// Package typo suggests known names for unknown ones, for error messages only.
package typo

import "strings"

// most bounds the edit distance of a suggestion in bytes: two swapped letters count as two.
const most = 2

// Nearest returns the name closest to name, ignoring case, and "" if none is close enough.
func Nearest(name string, names []string) string {
	best, least := "", min(most, len(name)/2)+1
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance returns the Levenshtein distance: the number of bytes to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

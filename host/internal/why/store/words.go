package store

import (
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
)

// Words returns completions: words, followed by those that of returns for each record, the newest
// first; only those that begin with typed, without duplicates.
func Words(dir, typed string, of func(*decision.Head) []string, words ...string) []string {
	heads, _ := Heads(dir) // those that can be read
	words = slices.Clone(words)
	for i := range slices.Backward(heads) {
		words = append(words, of(&heads[i])...)
	}
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(words, func(word string) bool {
		again := seen[word]
		seen[word] = true
		return again || !strings.HasPrefix(word, typed) || word != printable.Text(word)
	})
}

// Names returns the pod, its uid and the id of the record.
func Names(h *decision.Head) []string { return []string{h.Pod, h.UID, h.ID} }

// Signals returns the signal of the decision.
func Signals(h *decision.Head) []string { return []string{h.Signal} }

// Namespaces returns the namespace of the pod.
func Namespaces(h *decision.Head) []string {
	namespace, _, _ := strings.Cut(h.Pod, "/")
	return []string{namespace}
}

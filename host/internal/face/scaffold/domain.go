package scaffold

import (
	"slices"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
)

// placeholder is a domain reserved for examples.
const placeholder = "example.com"

// codeHosts are domains that modules of different authors share.
var codeHosts = []string{"github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "git.sr.ht", "gopkg.in"}

// domain returns the domain of a module if it is likely the author's and signals may be named
// by it, else the placeholder.
func domain(module string) string {
	first, _, _ := strings.Cut(module, "/")
	first = strings.ToLower(first)
	// Test with a name of some length, since the length is limited.
	if slices.Contains(codeHosts, first) || eviction.Signal(first+"/filehandles.free").ValidCustom() != nil {
		return placeholder
	}
	return first
}

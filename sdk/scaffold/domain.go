package scaffold

import (
	"slices"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
)

// placeholder is a domain without an owner.
const placeholder = "example.com"

// codeHosts are domains that modules of other people have, too.
var codeHosts = []string{"github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "git.sr.ht", "gopkg.in"}

// domain returns the domain of a module, if signals may be named by it, as it is
// most likely the author's, else the placeholder.
func domain(module string) string {
	first, _, _ := strings.Cut(module, "/")
	first = strings.ToLower(first)
	// A name of some length, since there is a limit.
	if slices.Contains(codeHosts, first) || eviction.Signal(first+"/filehandles.free").ValidCustom() != nil {
		return placeholder
	}
	return first
}

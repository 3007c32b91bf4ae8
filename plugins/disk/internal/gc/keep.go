package gc

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

const (
	mostPatterns       = 256
	longestPatternSize = 512
)

// Kept returns the rule of KeepImages and ImportedImages, which reports whether image GC keeps an
// image with these CRI names. It is nil if neither is set.
func (s Settings) Kept() func(tags, digests []string, id string) bool {
	if s.keptBy() == "" {
		return nil
	}
	patterns := make([][]string, len(s.KeepImages))
	for i, pattern := range s.KeepImages {
		patterns[i] = strings.Split(pattern, "*")
	}
	return func(tags, digests []string, id string) bool {
		// Without a tag, the image was superseded by another import. No pod finds it by name.
		if s.ImportedImages && len(tags) > 0 && len(digests) == 0 {
			return true
		}
		return slices.ContainsFunc(imageNames(tags, digests, id), func(name string) bool {
			return slices.ContainsFunc(patterns, func(parts []string) bool { return matches(parts, name) })
		})
	}
}

// keptBy returns the names of the set fields, "" if neither is set.
func (s Settings) keptBy() string {
	var fields []string
	if len(s.KeepImages) > 0 {
		fields = append(fields, "keepImages")
	}
	if s.ImportedImages {
		fields = append(fields, "importedImages")
	}
	return strings.Join(fields, " and ")
}

// imageNames returns the names with which patterns are compared.
func imageNames(tags, digests []string, id string) []string {
	out := []string{id, bare(id)}
	for _, name := range slices.Concat(tags, digests) {
		alone, _, _ := strings.Cut(name, "@")
		if colon := strings.LastIndexByte(alone, ':'); colon > strings.LastIndexByte(alone, '/') { // not a port
			alone = alone[:colon]
		}
		for _, n := range []string{name, alone} {
			out = append(out, n)
			if short, ok := strings.CutPrefix(n, "docker.io/"); ok {
				out = append(out, short, strings.TrimPrefix(short, "library/"))
			}
		}
	}
	return out
}

// matches compares a name with a pattern, split at its asterisks. A later place for a part is never
// better than the first one, so the time is linear in the name's length.
func matches(parts []string, name string) bool {
	last := len(parts) - 1
	if last == 0 {
		return name == parts[0]
	}
	rest, begins := strings.CutPrefix(name, parts[0])
	rest, ends := strings.CutSuffix(rest, parts[last])
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return begins && ends
}

// validateKeepImages returns an error for each pattern that is wrong.
func validateKeepImages(patterns []string) (errs []error) {
	const want = `want a name such as "registry.local/team/*"`
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(patterns) > mostPatterns {
		wrong("keepImages has %d patterns, want at most %d", len(patterns), mostPatterns)
	}
	for i, pattern := range patterns {
		switch {
		case pattern == "":
			wrong(`keepImages[%d] is "", %s`, i, want)
		case len(pattern) > longestPatternSize:
			wrong("keepImages[%d] begins with %.40q and has %d bytes, want at most %d", i, pattern, len(pattern), longestPatternSize)
		case strings.ContainsFunc(pattern, unicode.IsSpace):
			wrong("keepImages[%d] is %q with white space, %s", i, pattern, want)
		}
	}
	return errs
}

// keptText says what the kept images hold, "" if there are none. by names the settings.
func (n imageCounts) keptText(by string) string {
	if n.kept == 0 {
		return ""
	}
	return fmt.Sprintf("%d images of %s are kept by %s", n.kept, inUnits(n.keptBytes), by)
}

package supervisor

import (
	"regexp"
	"strings"
)

// reportLines is how much of the beginning of a crash is kept: Go says why, and
// where, in the first few lines of what may be thousands.
const reportLines = 6

// exception is how Node.js and Python name what nobody has caught.
var exception = regexp.MustCompile(`^(Uncaught )?[\w.]*(Error|Exception)(:|$| )`)

// beginsCrash reports whether a line is the first that says why a program crashed.
func beginsCrash(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || exception.MatchString(line)
}

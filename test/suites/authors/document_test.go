package authors

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

// A block is a fenced block of the document.
type block struct {
	line int
	// language and label are the words behind the fence.
	language, label string
	text            string
}

// Languages, and what labels mean: of sh, where the commands can run, and of go the
// file that the text is to be saved as.
const (
	commands = "sh"
	file     = "go"
	shown    = "yaml" // only to be read
	// demo needs real containers, node a node with evictd. Others need nothing.
	demo = "demo"
	node = "node"
	// values are those of the chart, without a label they are settings of a node.
	values = "values"
)

// checkout is the line that the reader adapts, and the one thing that is not run as
// it stands.
const checkout = "EVICTD=~/evictd\n"

func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func readDocument(t *testing.T) []block {
	t.Helper()
	raw := testos.ReadFile(t, filepath.Join(repository(t), "docs/plugin-authors.md"))
	blocks, err := parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

// parse returns the blocks. A file must be named in the line above, too, for those
// who see the page and not its source.
func parse(text string) ([]block, error) {
	var blocks []block
	var open *block
	above := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		fence, isFence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case !isFence && open != nil:
			open.text += line
		case !isFence && strings.TrimSpace(line) != "":
			above = line
		case isFence && open != nil:
			blocks, open = append(blocks, *open), nil
		case isFence:
			language, label, _ := strings.Cut(fence, " ")
			open = &block{line: n, language: language, label: label}
			if err := open.check(above); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the block has no end", open.line)
	}
	return blocks, nil
}

func (b *block) check(above string) error {
	switch {
	case b.language == file && b.label == "":
		return fmt.Errorf("code without the name of its file")
	case b.language == file && (!strings.HasPrefix(above, "Save this as `"+b.label+"`")):
		return fmt.Errorf("the line above is %q, want \"Save this as `%s`\"", above, b.label)
	case b.language == file, b.language == shown && (b.label == "" || b.label == values):
		return nil
	case b.language == commands && (b.label == "" || b.label == demo || b.label == node):
		return nil
	default:
		return fmt.Errorf("block %q %q, which nobody would run", b.language, b.label)
	}
}

// script returns all blocks as one program for bash, without those of the label
// that is left out. Commands run in one shell, as they do at a reader's.
func script(t *testing.T, blocks []block, without string) string {
	t.Helper()
	var s strings.Builder
	adapted := 0
	for _, b := range blocks {
		switch {
		case b.language == shown || b.label == without:
		case b.language == file:
			fmt.Fprintf(&s, "printf '\\n== line %d: %s\\n'\ncat >%s <<'END OF FILE'\n%sEND OF FILE\n", b.line, b.label, b.label, b.text)
		default:
			adapted += strings.Count(b.text, checkout)
			text := strings.Replace(b.text, checkout, "EVICTD="+quote(repository(t))+"\n", 1)
			fmt.Fprintf(&s, "printf '\\n== line %d\\n'\n", b.line)
			if b.label == node {
				s.WriteString("become_a_node\n")
			}
			s.WriteString("set -x\n" + text + "{ set +x; } 2>/dev/null\n")
		}
	}
	if adapted != 1 {
		t.Fatalf("%q stands in %d blocks, want one", checkout, adapted)
	}
	return s.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func TestBlocksOfTheDocument(t *testing.T) {
	count := map[string]int{}
	for _, b := range readDocument(t) {
		count[b.language+" "+b.label]++
	}
	for _, want := range []string{"sh ", "sh demo", "sh node", "go main.go", "go main_test.go"} {
		if count[want] == 0 {
			t.Errorf("no block %q in %v", want, count)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksOfTheDocument(t *testing.T) {
	docs := filepath.Join(repository(t), "docs")
	raw := testos.ReadFile(t, filepath.Join(docs, "plugin-authors.md"))
	links := link.FindAllStringSubmatch(string(raw), -1)
	if len(links) < 5 {
		t.Errorf("%d links were found, want more", len(links))
	}
	for _, l := range links {
		file, _, _ := strings.Cut(l[1], "#")
		if _, err := os.Stat(filepath.Join(docs, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestBlocksThatWouldNotRun(t *testing.T) {
	for text, want := range map[string]string{
		"```sh\ntrue\n":                      "no end",
		"```bash\ntrue\n```\n":               "nobody would run",
		"```sh root\ntrue\n```\n":            "nobody would run",
		"```go\npackage main\n```\n":         "name of its file",
		"Like this:\n```go a.go\n```\n":      "Save this as `a.go`",
		"Save this as `a.go`\n```\nx\n```\n": "nobody would run",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

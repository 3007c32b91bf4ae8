package browser

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
)

// A tree holds a page as a screen reader has it.
type tree struct {
	nodes []*accessibility.Node
	byID  map[accessibility.NodeID]*accessibility.Node
}

func read(p *tab) *tree {
	p.Helper()
	full, err := chromedp.Call(p.Context, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	p.must(err)
	all := &tree{byID: map[accessibility.NodeID]*accessibility.Node{}}
	for _, n := range full.Nodes {
		all.byID[n.NodeID] = n
	}
	var add func(n *accessibility.Node)
	add = func(n *accessibility.Node) { // in the order of the page
		all.nodes = append(all.nodes, n)
		for _, id := range n.ChildIDs {
			if child := all.byID[id]; child != nil {
				add(child)
			}
		}
	}
	add(full.Nodes[0])
	return all
}

func value(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var s any
	_ = json.Unmarshal(v.Value, &s) // none is no text
	text, _ := s.(string)
	return text
}

func role(n *accessibility.Node) string { return value(n.Role) }

// below returns nodes of a role below n, in their order, but not those within one another.
func (a *tree) below(n *accessibility.Node, of string) (found []*accessibility.Node) {
	for _, id := range n.ChildIDs {
		switch child := a.byID[id]; {
		case child == nil:
		case role(child) == of && !child.Ignored:
			found = append(found, child)
		default:
			found = append(found, a.below(child, of)...)
		}
	}
	return found
}

// text returns what a reader hears of n.
func (a *tree) text(n *accessibility.Node) string {
	var parts []string
	for _, t := range a.below(n, "StaticText") {
		parts = append(parts, value(t.Name))
	}
	return strings.Join(parts, "")
}

// one returns the only node of a role, and of a name unless that is empty.
func (a *tree) one(t testing.TB, of, name string) *accessibility.Node {
	t.Helper()
	var found []*accessibility.Node
	for _, n := range a.nodes {
		if role(n) == of && !n.Ignored && (name == "" || value(n.Name) == name) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d of role %s with the name %q, want one", len(found), of, name)
	}
	return found[0]
}

// described returns the definitions of each term, in their order.
func (a *tree) described() map[string][]string {
	all, term := map[string][]string{}, ""
	for _, n := range a.nodes {
		switch role(n) {
		case "term":
			term = a.text(n)
		case "definition":
			all[term] = append(all[term], a.text(n))
		}
	}
	return all
}

// rows returns the cells of a table by its name, without the heading.
func (a *tree) rows(t testing.TB, name string) (rows [][]string) {
	t.Helper()
	for _, row := range a.below(a.one(t, "table", name), "row") {
		var cells []string
		for _, cell := range a.below(row, "cell") {
			cells = append(cells, a.text(cell))
		}
		if cells != nil {
			rows = append(rows, cells)
		}
	}
	return rows
}

// property returns a property of a node, such as its level.
func property[T any](n *accessibility.Node, name accessibility.PropertyName) (v T) {
	for _, p := range n.Properties {
		if p.Name == name {
			_ = json.Unmarshal(p.Value.Value, &v) // the zero value is wrong for whoever asks
		}
	}
	return v
}

package quota

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/evictd/evictd/shared/nodefs"
)

const (
	projectsFile = "/etc/projects"
	// maxFileBytes is enough for some 100,000 volumes.
	maxFileBytes = 16 << 20
)

// Projects are the directories that are registered as separate projects.
type Projects struct {
	node nodefs.FS
	ids  map[string]uint32 // by directory, as the node's path
}

// Read reads the registered projects of the node with the root directory root ("" means "/"). A
// node without the file has none.
func Read(root string) (*Projects, error) {
	p := &Projects{node: nodefs.FS{Root: root}}
	f, err := os.Open(p.node.Path(projectsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if p.ids, err = parseProjects(io.LimitReader(f, maxFileBytes)); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return p, nil
}

// registered returns the number with which only dir is registered.
func (p *Projects) registered(dir string) (uint32, bool) {
	if p == nil {
		return 0, false
	}
	id, ok := p.ids[path.Clean(dir)]
	return id, ok
}

// parseProjects parses lines of "number:directory" (man 5 projects). Like the tools, it skips
// anything else. It omits a number with several directories, whose figure would be their sum, and a
// directory with several numbers, which is really in only one of them.
func parseProjects(r io.Reader) (map[string]uint32, error) {
	ids, dirs := map[string]uint32{}, map[uint32]string{}
	var unclear []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		number, dir, ok := strings.Cut(lines.Text(), ":")
		id, err := strconv.ParseUint(number, 10, 32)
		if !ok || err != nil || id == 0 || !path.IsAbs(dir) {
			continue
		}
		dir = path.Clean(dir)
		if other, ok := dirs[uint32(id)]; ok && other != dir {
			unclear = append(unclear, dir, other)
		}
		if other, ok := ids[dir]; ok && other != uint32(id) {
			unclear = append(unclear, dir)
		}
		ids[dir], dirs[uint32(id)] = uint32(id), dir
	}
	for _, dir := range unclear {
		delete(ids, dir)
	}
	return ids, lines.Err()
}

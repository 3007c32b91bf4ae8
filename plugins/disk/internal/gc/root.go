package gc

import (
	"os"

	securejoin "github.com/cyphar/filepath-securejoin"

	"github.com/evictd/evictd/shared/nodefs"
)

// within returns the path at which this process finds the node's file name. Under a root other than
// "/" it resolves absolute links relative to the root, which the kernel would not do.
func within(root nodefs.FS, name string) (string, error) {
	if root.Path("/") == "/" {
		return name, nil
	}
	return securejoin.SecureJoin(root.Path("/"), name)
}

// open opens the node's file name for reading.
func (s *step) open(name string) (*os.File, error) {
	path, err := within(s.root, name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

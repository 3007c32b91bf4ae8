package gc

import (
	"os"

	securejoin "github.com/cyphar/filepath-securejoin"

	"github.com/evictd/evictd/shared/nodefs"
)

// within returns where the node's file name is seen below the node's root. Below
// another root than "/" absolute links are followed from there, which the kernel does not.
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

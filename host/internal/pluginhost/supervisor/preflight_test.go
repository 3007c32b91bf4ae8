package supervisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
)

// Check says of a directory what New says.
func TestCheckOfAPluginDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(privateDir(t), "plugins")
	for _, prepare := range []func() error{
		func() error { return nil }, // absent
		func() error { return os.WriteFile(dir, nil, 0o600) },
		func() error { _ = os.Remove(dir); return os.Mkdir(dir, 0o755) },
		func() error { return os.Chmod(dir, 0o777) }, // as wide as it must not be
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		want := plugindir.Check(dir)
		errs, warnings := Check(Options{Dir: dir})
		if len(warnings) > 0 || (want == nil) != (len(errs) == 0) || want != nil && errs[0].Error() != want.Error() {
			t.Errorf("got %v and %q, want %v", errs, warnings, want)
		}
	}
}

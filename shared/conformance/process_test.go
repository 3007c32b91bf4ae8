package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// buildDir has the program that testProgram builds; TestMain removes it.
var buildDir string

// testProgram returns the path of this test binary without the race detector, with which each of its many starts
// would take longer.
func testProgram(t *testing.T) string {
	t.Helper()
	program, err := buildTestProgram()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

var buildTestProgram = sync.OnceValues(func() (string, error) {
	var err error
	if buildDir, err = os.MkdirTemp("", "conformance-"); err != nil {
		return "", err
	}
	program := filepath.Join(buildDir, "conformance.test")
	cmd := exec.Command("go", "test", "-c", "-trimpath", "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return program, nil
})

// serveOutside runs the plugin with a fault on a socket until the test ends, and starts it again when it has ended, as
// a kubelet does with a container.
func serveOutside(t *testing.T, socket, fault string) {
	t.Helper()
	program := testProgram(t)
	ctx, cancel := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() {
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, program)
			cmd.Env = []string{"EVICTD_PLUGIN_SOCKET=" + socket, faultVariable + "=" + fault}
			_ = cmd.Run() // a plugin that crashes is what is tested
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { cancel(); runs.Wait() })
}

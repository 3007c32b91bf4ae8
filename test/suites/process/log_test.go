package process

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

// A log without a reader kept the loop at the line before the kill, and the hog
// alive; a reader that had gone ended evictd.
func TestTheReaderOfTheLogDoesNotMatter(t *testing.T) {
	for _, name := range []string{"reads", "stalls", "gone"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			config := map[string]any{
				"pluginDir": daemon.PluginDir(t), "runDir": daemon.RunDir(t), "logLevel": "debug",
			}
			maps.Copy(config, w.config)
			file, err := evictd.Configure(t.TempDir(), config)
			if err != nil {
				t.Fatal(err)
			}
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if name != "reads" { // no room from the first line on
				fillPipe(t, writer)
			}
			cmd := exec.Command(daemon.Build(t, "evictd"), "run", "--config", file)
			cmd.Stderr = writer
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer cmd.Process.Kill()
			switch name {
			case "reads":
				go func() { _, _ = io.Copy(io.Discard, reader) }()
			case "gone":
				reader.Close()
			}
			w.pressure()
			w.gone("big", 10*time.Second)
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("evictd ended: %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("evictd does not end")
			}
		})
	}
}

// fillPipe writes until nothing more fits.
func fillPipe(t *testing.T, w *os.File) {
	t.Helper()
	if err := w.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := w.Write(make([]byte, 1<<20))
	if !os.IsTimeout(err) {
		t.Fatal(fmt.Errorf("wrote %d bytes into the pipe: %w", n, err))
	}
}

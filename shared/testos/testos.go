// Package testos has functions of package os for tests: an error ends the test.
package testos

import (
	"os"
	"path/filepath"
	"testing"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ReadFile is os.ReadFile.
func ReadFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	check(t, err)
	return data
}

// WriteFile is os.WriteFile, also of a text.
func WriteFile[T ~string | ~[]byte](t testing.TB, name string, data T, perm os.FileMode) {
	t.Helper()
	check(t, os.WriteFile(name, []byte(data), perm))
}

// Mkdir is os.Mkdir.
func Mkdir(t testing.TB, name string, perm os.FileMode) {
	t.Helper()
	check(t, os.Mkdir(name, perm))
}

// MkdirAll is os.MkdirAll.
func MkdirAll(t testing.TB, path string, perm os.FileMode) {
	t.Helper()
	check(t, os.MkdirAll(path, perm))
}

// Chmod is os.Chmod.
func Chmod(t testing.TB, name string, mode os.FileMode) {
	t.Helper()
	check(t, os.Chmod(name, mode))
}

// Rename is os.Rename.
func Rename(t testing.TB, from, to string) {
	t.Helper()
	check(t, os.Rename(from, to))
}

// Symlink is os.Symlink.
func Symlink(t testing.TB, to, name string) {
	t.Helper()
	check(t, os.Symlink(to, name))
}

// Remove is os.Remove.
func Remove(t testing.TB, name string) {
	t.Helper()
	check(t, os.Remove(name))
}

// Put writes a file, and makes its directory if it does not exist.
func Put[T ~string | ~[]byte](t testing.TB, name string, data T, perm os.FileMode) {
	t.Helper()
	MkdirAll(t, filepath.Dir(name), 0o755)
	WriteFile(t, name, data, perm)
}

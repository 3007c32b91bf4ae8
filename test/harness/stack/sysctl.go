package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const sysctlDir = "/proc/sys"

// readSysctls returns the values of files below /proc/sys by name, such as
// "vm/overcommit_memory". It omits those that this kernel does not have.
func readSysctls(names []string) (map[string]string, error) {
	values := map[string]string{}
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(sysctlDir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("remember sysctl: %w", err)
		}
		values[name] = strings.TrimSpace(string(raw))
	}
	return values, nil
}

// writeSysctls sets those whose value differs.
func writeSysctls(values map[string]string) error {
	var errs []error
	for name, value := range values {
		now, err := readSysctls([]string{name})
		if err == nil && now[name] != value {
			err = os.WriteFile(filepath.Join(sysctlDir, name), []byte(value), 0o644)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("set sysctl %s back to %s: %w", name, value, err))
		}
	}
	return errors.Join(errs...)
}

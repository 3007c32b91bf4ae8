package crossing

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// TasksAvailable returns pid.available by the kubelet's formula (stats/pidlimit).
func TasksAvailable() (int, error) {
	var limits [2]int
	for i, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		if limits[i], err = strconv.Atoi(strings.TrimSpace(string(raw))); err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
	}
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	var load [3]float64
	var running, tasks int
	if _, err := fmt.Sscanf(string(raw), "%f %f %f %d/%d", &load[0], &load[1], &load[2], &running, &tasks); err != nil {
		return 0, fmt.Errorf("/proc/loadavg: %w", err)
	}
	return min(limits[0], limits[1]) - tasks, nil
}

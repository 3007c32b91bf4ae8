package host

import (
	"github.com/evictd/evictd/host/internal/face/config"
)

// Config is the configuration of a Manager: evictd's configuration file with defaults applied.
// DefaultConfig and LoadConfig make one.
type Config = config.Config

// DefaultConfig returns the default configuration, for a program to modify.
func DefaultConfig() Config { return config.Default() }

// LoadConfig reads evictd's configuration file. The error lists every problem, one per line.
func LoadConfig(file string) (Config, error) { return config.Load(file) }

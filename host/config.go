package host

import (
	"github.com/evictd/evictd/host/internal/config"
)

// Config is the configuration of a Manager: evictd's file as it is in force.
// DefaultConfig and LoadConfig make one.
type Config = config.Config

// DefaultConfig returns the configuration of a program that changes what it wants
// to be different.
func DefaultConfig() Config { return config.Default() }

// LoadConfig reads evictd's configuration file. The error has all that is wrong,
// a line each.
func LoadConfig(file string) (Config, error) { return config.Load(file) }

// Package config is what an operator tells evictd: one YAML file and flags that
// beat it, strict, with every mistake reported at once and by name.
//
// A field is one row: its line in Config, Summary or Plugin, whose tags flags,
// defaults, checks, errors, reload and the test of docs/configuration.md read. A new
// one needs its row, its line in the document, and its use.
//
// It reads the file, checks and fills in defaults, and says what may change
// while evictd runs. It does not decide anything with the values: the grammar
// of thresholds is in host/internal/policy, and whether a directory or a socket
// exists is for those who use it.
package config

package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"maps"
	"slices"
	"strings"
)

// texts counts the KiB of functions in evictd by module: those of the largest, and of the rest.
func texts(_ context.Context, b *bench) (*part, error) {
	p := &part{
		Title: "Functions in evictd by module, KiB", Columns: []column{{"kib", "KiB", 0}},
		Notes: []string{"Machine code alone, without tables, constants and names of types."},
	}
	sums, err := textOf(b.programs.evictd)
	if err != nil {
		return nil, err
	}
	add := func(of string, kib float64) {
		p.Rows = append(p.Rows, row{Name: of, Values: map[string]float64{"kib": kib}})
	}
	rest := 0.0
	for i, module := range slices.SortedFunc(maps.Keys(sums), func(a, b string) int { return cmp.Compare(sums[b], sums[a]) }) {
		if i < 12 {
			add(module, sums[module])
		} else {
			rest += sums[module]
		}
	}
	add("the rest", rest)
	return p, nil
}

// textOf returns the KiB of functions in a program by module.
func textOf(program string) (map[string]float64, error) {
	info, unread := buildinfo.ReadFile(program)
	file, err := elf.Open(program)
	if err := errors.Join(unread, err); err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	modules := []string{info.Main.Path}
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
	}
	sums := map[string]float64{}
	symbols, err := file.Symbols()
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			sums[moduleOf(s.Name, modules)] += float64(s.Size) / 1024
		}
	}
	return sums, err
}

// moduleOf returns the module of a symbol, the one with the longest path if several match.
func moduleOf(symbol string, modules []string) (best string) {
	symbol = strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(symbol, "type:.eq."), "type:.hash."), "%2e", ".")
	for _, m := range modules {
		if below, is := strings.CutPrefix(symbol, m); is && strings.IndexAny(below, "./") == 0 && len(m) > len(best) {
			best = m
		}
	}
	return cmp.Or(best, "standard library")
}

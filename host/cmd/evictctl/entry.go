//go:build !man

package main

func main() { start() }

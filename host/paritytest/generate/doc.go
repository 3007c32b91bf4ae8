// Package generate makes random scenarios for eviction managers. The same seed
// makes the same scenario.
//
// Figures are drawn around the configured thresholds rather than at large: at
// them, one below, within what is to be reclaimed beyond them. Pods share a few
// amounts, so that they rank equal now and then.
//
// What the kubelet does by accident is rare and named in the scenario's quirks: a
// panic on volumes without usage, containerfs thresholds of the user's, and a
// split filesystem with the gate for it off.
package generate

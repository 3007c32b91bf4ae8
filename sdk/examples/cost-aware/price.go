package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// maxUSD is more than any pod costs in an hour. Who writes the annotation
	// would otherwise put a pod out of reach with a row of nines.
	maxUSD = 10_000
	// longest is the length of text that may be a price: with an annotation of
	// 256 KiB is no price.
	longest = 20
)

// A price is the value of a pod per hour. Whole micro-dollars compare exactly.
type price struct {
	micros int64
	// assumed says why the price is not the pod's own, "" if it is.
	assumed string
}

// priceOf reads a pod's price. One that cannot be used is as none: a typing error
// must neither protect a pod nor stop the ranking of all others.
func priceOf(pod *eviction.Pod, unpriced int64) price {
	text, ok := pod.Annotations[priceKey]
	if !ok {
		return price{unpriced, "no price"}
	}
	micros, ok := parsePrice(text)
	if !ok {
		return price{unpriced, fmt.Sprintf("price %.*q is none", longest, text)}
	}
	return price{micros: micros}
}

// parsePrice reads a plain decimal number from 0 to maxUSD: digits and at most one
// point. Signs, exponents, "inf" and "NaN", which strconv knows, are no prices.
func parsePrice(text string) (micros int64, ok bool) {
	if len(text) > longest || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	usd, err := strconv.ParseFloat(text, 64)
	if err != nil || usd > maxUSD {
		return 0, false
	}
	return int64(usd*1e6 + 0.5), true
}

// String is for the reason of a ranking: "0.25 USD/h".
func (p price) String() string {
	text := strconv.FormatFloat(float64(p.micros)/1e6, 'f', -1, 64) + " USD/h"
	if p.assumed == "" {
		return text
	}
	return p.assumed + ", counts as " + text
}

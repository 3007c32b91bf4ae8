package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The axis of the picture is logarithmic, from 10^-decades to 10^decades. All lengths are in pixels.
const (
	decades, decade  = 2, 90
	axisLeft, lineUp = 520, 18
	axisOne          = axisLeft + decades*decade
	axisRight        = axisOne + decades*decade
	pictureTop       = 66
	lessFill         = "#5b9a68"
	moreFill         = "#4878a8"
	beyondFill       = "#c04040"
)

// draw draws the ratios of all rows that have one, below the titles of their parts.
func draw(parts []*part) string {
	var bars strings.Builder
	y := pictureTop
	for _, p := range parts {
		titled := false
		for _, r := range p.Rows {
			ratio, has := r.Values["ratio"]
			if !has || ratio <= 0 {
				continue
			}
			if !titled {
				y += lineUp / 2
				fmt.Fprintf(&bars, `<text x="8" y="%d" font-weight="bold">%s</text>`+"\n", y+10, html.EscapeString(p.Title))
				y, titled = y+lineUp, true
			}
			bars.WriteString(bar(r, ratio, y))
			y += lineUp
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="white"/>
<text x="8" y="20" font-size="16">What evictd needs, in multiples of a peer's figure in the same run</text>
<path d="M8 32h10v10h-10z" fill="%s"/><text x="22" y="42">less than the peer</text>
<path d="M150 32h10v10h-10z" fill="%s"/><text x="164" y="42">more</text>
<path d="M212 32l7 5l-7 5z" fill="%s"/><text x="224" y="42">beyond the axis</text>
<text x="8" y="60">Each row: the measured : its peer. The axis is logarithmic.</text>
`, axisRight+80, y+lineUp, lessFill, moreFill, beyondFill)
	for power := -decades; power <= decades; power++ {
		fmt.Fprintf(&out, `<path d="M%[1]d %[2]dV%[3]d" stroke="#c8c8c8"/><text x="%[1]d" y="60" text-anchor="middle">%[4]g×</text>`+"\n", axisOne+power*decade, pictureTop, y, math.Pow10(power))
	}
	return out.String() + bars.String() + "</svg>\n"
}

// bar draws one ratio from 1 on; one beyond the axis ends in an arrow.
func bar(r row, ratio float64, y int) string {
	label := strings.TrimSuffix(fmt.Sprintf("%s, %d pods", r.Name, r.Pods), ", 0 pods")
	length, fill, arrow := decade*math.Log10(ratio), moreFill, ""
	if length < 0 {
		fill = lessFill
	}
	if most := float64(decades * decade); math.Abs(length) > most {
		length = math.Copysign(most, length)
		arrow = fmt.Sprintf(`<path d="M%.0f %dl%.0f 6l%.0f 6z" fill="%s"/>`, axisOne+length, y, math.Copysign(8, length), math.Copysign(8, -length), beyondFill)
	}
	return fmt.Sprintf(`<text x="%d" y="%d" text-anchor="end">%s : %s</text><rect x="%.1f" y="%d" width="%.1f" height="12" fill="%s"/>%s<text x="%d" y="%d">%.3g×</text>`+"\n",
		axisLeft-10, y+10, html.EscapeString(label), html.EscapeString(r.Peer), axisOne+min(length, 0), y, max(math.Abs(length), 1), fill, arrow, axisRight+14, y+10, ratio)
}

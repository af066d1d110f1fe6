package main

import (
	"fmt"
	"html"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// The picture's grid. Every piece of text is placed by its column, so that it stands right in whatever font the viewer has.
const (
	cellWidth   = 8.4
	cellHeight  = 19
	margin      = 20
	titleHeight = 34 // of the window's title
	fontSize    = 14

	pictureWidth = 110 // columns
)

// colours are for a dark terminal.
var colours = map[style]string{plain: "#d4d4d8", bold: "#fafafa", faint: "#8b8b94", good: "#4ade80", busy: "#fbbf24", bad: "#f87171",
	urgent: "#e879f9"}

// picture is the lines as SVG: the same bytes for the same lines.
func picture(lines []line, title string) string {
	columns := 0
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(l.text()))
	}
	width, height := int(float64(columns)*cellWidth)+2*margin, len(lines)*cellHeight+2*margin+titleHeight
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n",
		width, height, width, height, html.EscapeString(title))
	fmt.Fprintf(&svg, `<rect width="%d" height="%d" rx="8" fill="#18181b"/>`+"\n", width, height)
	for n, colour := range []string{"#f87171", "#fbbf24", "#4ade80"} {
		fmt.Fprintf(&svg, `<circle cx="%d" cy="%d" r="6" fill="%s"/>`+"\n", margin+6+n*20, titleHeight/2+3, colour)
	}
	fmt.Fprintf(&svg,
		`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="%d" xml:space="preserve">`+"\n",
		fontSize)
	for n, l := range lines {
		drawLine(&svg, l, titleHeight+margin+n*cellHeight)
	}
	svg.WriteString("</g>\n</svg>\n")
	return svg.String()
}

func drawLine(to *strings.Builder, each line, top int) {
	column := 0
	for _, p := range each {
		x, size := margin+float64(column)*cellWidth, utf8.RuneCountInString(p.text)
		column += size
		switch {
		case strings.Trim(p.text, " ") == "":
		case strings.Trim(p.text, "█") == "":
			drawBar(to, x, top, size, colours[p.style])
		case strings.Trim(p.text, "░") == "":
			drawBar(to, x, top, size, "#3f3f46")
		default:
			drawText(to, x, top, p)
		}
	}
}

// drawBar is a rectangle, because fonts disagree about blocks.
func drawBar(to *strings.Builder, x float64, top, cells int, colour string) {
	fmt.Fprintf(to, `<rect x="%.1f" y="%d" width="%.1f" height="12" fill="%s"/>`+"\n", x, top+1, float64(cells)*cellWidth, colour)
}

func drawText(to *strings.Builder, x float64, top int, p piece) {
	lead := len(p.text) - len(strings.TrimLeft(p.text, " "))
	text := strings.TrimSpace(p.text)
	weight := ""
	if p.style == bold || p.style == urgent {
		weight = ` font-weight="bold"`
	}
	x += float64(lead) * cellWidth
	length := float64(utf8.RuneCountInString(text)) * cellWidth
	fmt.Fprintf(to, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" fill="%s"%s>%s</text>`+"\n", x, top+12, length,
		colours[p.style], weight, html.EscapeString(text))
}

// draw is the picture of a run: the command, the last frame, and how long it took.
func draw(file string, last demoState, first time.Duration) error {
	lines := append([]line{{{"$ make demo", bold}}, nil}, screen(last, pictureWidth)...)
	lines = append(lines, nil, times(last, first))
	if err := os.WriteFile(file, []byte(picture(lines, "A terminal in which make demo has finished a dozen tasks")), 0o644); err != nil {
		return fmt.Errorf("draw picture: %w", err)
	}
	return nil
}

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

const printed = `   0.100 s  stage   starting a private containerd
  10.306 s  stage   the hog may start
  10.405 s  signal  memory.available  21460 MiB |###|   973 MiB to the threshold
  10.506 s  signal  memory.available  21410 MiB |## |   923 MiB to the threshold
  11.000 s  signal  memory.available  21168 MiB: CROSSED (1.0 ms after the sample before)
  11.005 s  evictd  evicting pod
                      pod: demo/steady <expendable>
  11.014 s  pod     demo/steady got SIGTERM 14.5 ms after the crossing` + " and much more than a line of the picture has room for, so it goes on below" + `
  23.900 s  stage   stopping evictd
  23.904 s  evictd  plugin exited
`

func TestThePictureHasWhatHappened(t *testing.T) {
	var svg strings.Builder
	if err := draw(strings.NewReader(printed), &svg); err != nil {
		t.Fatal(err)
	}
	var texts []string
	d := xml.NewDecoder(strings.NewReader(svg.String()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok && strings.TrimSpace(string(text)) != "" {
			texts = append(texts, string(text))
		}
	}
	if len(texts) != 7 || !strings.Contains(texts[2], "CROSSED") || !strings.Contains(texts[4], "<expendable>") || texts[6] != strings.Repeat(" ", 22)+"has room for, so it goes on below" {
		t.Errorf("%d lines: %q", len(texts), texts)
	}
	if err := draw(strings.NewReader("make: nothing to do\n"), &svg); err == nil {
		t.Error("a picture of nothing")
	}
}

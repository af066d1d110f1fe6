package settings

import (
	"testing"
	"time"
)

func TestReader(t *testing.T) {
	variables := map[string]string{"TEXT": "a", "NUMBER": "7", "WORD": "seven"}
	reader := NewReader(func(name string) string { return variables[name] })
	if got := reader.Text("TEXT", "b") + reader.Text("NONE", "b"); got != "ab" {
		t.Errorf("read %q", got)
	}
	if reader.Number("NUMBER", "1") != 7 || reader.Number("NONE", "1") != 1 || reader.Seconds("NUMBER", "1") != 7*time.Second {
		t.Error("read other numbers")
	}
	if err := reader.Err(); err != nil {
		t.Error(err)
	}
	_ = reader.Number("WORD", "1")
	if err := reader.Err(); err == nil || err.Error() != `read environment: WORD="seven" is not a number` {
		t.Errorf("got %v", err)
	}
}

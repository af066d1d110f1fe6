package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMeasuresProveWhenAllOfAnIDMetTheirTargets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	content := `[{"suite": "a", "measure": "[R11] small", "met": true}, {"suite": "a", "measure": "[R12] soon", "met": true},
		{"suite": "b", "measure": "[R12] always", "met": false}, {"suite": "b", "measure": "of no row", "met": true}]`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	tests, err := readBench(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]outcome{"a: [R11] small": passed, "a: [R12] soon": skipped, "b: [R12] always": skipped}
	for _, one := range tests {
		if got, known := want[one.name]; !known || got != one.outcome || one.level != "bench" {
			t.Errorf("%+v", one)
		}
	}
	if len(tests) != len(want) {
		t.Errorf("%d tests", len(tests))
	}
}

func TestNothingWasMeasured(t *testing.T) {
	for _, file := range []string{"", filepath.Join(t.TempDir(), "results.json")} {
		if tests, err := readBench(file); err != nil || len(tests) > 0 {
			t.Errorf("%v, %v", tests, err)
		}
	}
	broken := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readBench(broken); err == nil {
		t.Error("a broken file passes")
	}
}

package main

import (
	"regexp"
	"slices"
)

const idPattern = `[A-Z][0-9]{2}`

var (
	anID      = regexp.MustCompile(idPattern)
	bracketed = regexp.MustCompile(`\[` + idPattern + `(?:[ ,_]+` + idPattern + `)*\]`)
	label     = regexp.MustCompile(`^\[?` + idPattern + `\]?$`)
	// Only letters of the list count here: TestV10Format is about a version and not about a line of a chapter V.
	function = regexp.MustCompile(`^(?:Test|Benchmark|Fuzz)((?:[SPKOR][0-9]{2}_?)+)(?:[^0-9a-z]|$)`)
)

// idsInText finds [S08] and [S08, S09] anywhere.
func idsInText(text string) []string {
	var ids []string
	for _, group := range bracketed.FindAllString(text, -1) {
		ids = append(ids, anID.FindAllString(group, -1)...)
	}
	return ids
}

// idsInFunction also finds ids that a Go function's name, which cannot have brackets, begins with.
func idsInFunction(name string) []string {
	ids := idsInText(name)
	if found := function.FindStringSubmatch(name); found != nil {
		ids = append(ids, anID.FindAllString(found[1], -1)...)
	}
	return ids
}

func idsInLabels(labels []string) []string {
	var ids []string
	for _, text := range labels {
		if label.MatchString(text) {
			ids = append(ids, anID.FindString(text))
		}
	}
	return ids
}

func unique(ids []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

package main

import (
	"embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

//go:embed notes/*.txt
var files embed.FS

// A note is a page about one thing.
type note struct {
	title     string
	sentences []sentence
}

type sentence struct {
	text  string
	words []string // in their basic form, without stop words
}

type noteSet []note

// loadNotes returns all notes, by title.
func loadNotes() (noteSet, error) {
	entries, err := files.ReadDir("notes")
	if err != nil {
		return nil, fmt.Errorf("read notes: %w", err)
	}
	var notes noteSet
	for _, entry := range entries {
		text, err := files.ReadFile("notes/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read note: %w", err)
		}
		notes = append(notes, note{title: strings.TrimSuffix(entry.Name(), ".txt"), sentences: splitSentences(string(text))})
	}
	return notes, nil
}

func splitSentences(text string) []sentence {
	var list []sentence
	for part := range strings.SplitSeq(strings.Join(strings.Fields(text), " "), ". ") {
		if part = strings.TrimSuffix(strings.TrimSpace(part), "."); part != "" {
			list = append(list, sentence{text: part + ".", words: keywords(part)})
		}
	}
	return list
}

// keywords returns the words that a text is about.
func keywords(text string) []string {
	var list []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if !slices.Contains(stopWords, word) {
			list = append(list, singular(word))
		}
	}
	return list
}

// singular maps singular and plural to one word, well enough for a dozen notes.
func singular(word string) string {
	if len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") {
		return strings.TrimSuffix(word, "s")
	}
	return word
}

// stopWords occur in every text.
var stopWords = strings.Fields(`a after again all also always an and another any are as at away back be because been before both but by
	can cannot
	comes could do does each every everybody few for from gives has have her home however if in instead into is it its itself last least less
	long longer lets may more most much must nearly needs never next no nobody not of off old on one or other others out over own past same
	seen should since so some soon still such than that the their them then there they this those through time to together two under until up
	upon use used very was way were what when which while who whoever whole will with within without would you your six seven three four five`)

// rarity returns the weight of a word: low if every note has it.
func (l noteSet) rarity(word string) float64 {
	count := 0
	for _, note := range l {
		if slices.ContainsFunc(note.sentences, func(s sentence) bool { return slices.Contains(s.words, word) }) {
			count++
		}
	}
	return math.Log(1 + float64(len(l))/float64(1+count))
}

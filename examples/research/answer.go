package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// An answer is the result of a task. Each method fills in its own part.
type answer struct {
	Topic    string    `json:"topic"`
	Agent    string    `json:"agent,omitempty"`
	Findings []finding `json:"findings,omitempty"` // search
	Ask      []string  `json:"ask,omitempty"`      // plan
	Notes    []string  `json:"notes,omitempty"`    // plan, count: notes that mention the topic
	Times    int       `json:"times,omitempty"`    // count
	Beside   []tally   `json:"beside,omitempty"`   // count
}

// A finding is a sentence, with how well it fits the topic.
type finding struct {
	Note  string  `json:"note"`
	Score float64 `json:"score"`
	Says  string  `json:"says"`
}

type tally struct {
	Word  string `json:"word"`
	Times int    `json:"times"`
}

// Lists are short: a result may have 4 KiB.
const (
	mostFindings = 3
	mostWords    = 5
)

type method func(read library, topic string) answer

var methods = map[string]method{"plan": plan, "search": search, "count": count}

func methodOf(arguments []string) (method, error) {
	if len(arguments) == 1 && methods[arguments[0]] != nil {
		return methods[arguments[0]], nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	return nil, fmt.Errorf("say what to do, one of %s: got %q", known, arguments)
}

// search ranks the sentences that mention the topic.
func search(read library, topic string) answer {
	var found []finding
	for _, note := range read {
		for _, sentence := range note.sentences {
			if score := read.score(sentence, words(topic)); score > 0 {
				found = append(found, finding{Note: note.title, Score: math.Round(score*100) / 100, Says: sentence.text})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(b.Score, a.Score) })
	return answer{Findings: found[:min(len(found), mostFindings)]}
}

// score counts rare words of the topic more than common ones, repetitions ever less, and short sentences more than long ones.
func (l library) score(in sentence, topic []string) float64 {
	sum := 0.0
	for _, word := range topic {
		times := float64(occurrences(in.words, word))
		sum += l.rarity(word) * times / (times + 0.5 + float64(len(in.words))/20)
	}
	return sum
}

// count returns how often the topic is mentioned, where, and beside which words.
func count(read library, topic string) answer {
	found := answer{Beside: most(read.beside(topic), func(string) float64 { return 1 })}
	for _, note := range read {
		before := found.Times
		for _, sentence := range note.sentences {
			found.Times += mentions(sentence, words(topic))
		}
		if found.Times > before {
			found.Notes = append(found.Notes, note.title)
		}
	}
	return found
}

// plan names what to ask about next: words that stand beside the topic and seldom elsewhere.
func plan(read library, topic string) answer {
	found := answer{Notes: count(read, topic).Notes}
	for _, word := range most(read.beside(topic), read.rarity) {
		found.Ask = append(found.Ask, word.Word)
	}
	return found
}

func mentions(in sentence, topic []string) int {
	sum := 0
	for _, word := range topic {
		sum += occurrences(in.words, word)
	}
	return sum
}

// beside counts the other words of the sentences that mention the topic.
func (l library) beside(topic string) map[string]int {
	wanted, times := words(topic), map[string]int{}
	for _, note := range l {
		for _, sentence := range note.sentences {
			if mentions(sentence, wanted) == 0 {
				continue
			}
			for _, word := range sentence.words {
				if !slices.Contains(wanted, word) {
					times[word]++
				}
			}
		}
	}
	return times
}

func occurrences(in []string, word string) int {
	times := 0
	for _, each := range in {
		if each == word {
			times++
		}
	}
	return times
}

// most are the words of the greatest weight.
func most(times map[string]int, weight func(string) float64) []tally {
	var all []tally
	for _, word := range slices.Sorted(maps.Keys(times)) {
		all = append(all, tally{word, times[word]})
	}
	slices.SortStableFunc(all, func(a, b tally) int {
		return cmp.Compare(float64(b.Times)*weight(b.Word), float64(a.Times)*weight(a.Word))
	})
	return all[:min(len(all), mostWords)]
}

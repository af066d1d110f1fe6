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
	Topic      string      `json:"topic"`
	Agent      string      `json:"agent,omitempty"`
	Findings   []finding   `json:"findings,omitempty"` // search
	NextTopics []string    `json:"ask,omitempty"`      // plan
	Notes      []string    `json:"notes,omitempty"`    // plan, count: notes that mention the topic
	Times      int         `json:"times,omitempty"`    // count
	Neighbors  []wordCount `json:"beside,omitempty"`   // count
}

// A finding is a sentence and how well it fits the topic.
type finding struct {
	Note     string  `json:"note"`
	Score    float64 `json:"score"`
	Sentence string  `json:"says"`
}

type wordCount struct {
	Word  string `json:"word"`
	Times int    `json:"times"`
}

// Lists are short: a result has at most 4 KiB.
const (
	maxFindings = 3
	maxWords    = 5
)

type method func(read noteSet, topic string) answer

var methods = map[string]method{"plan": plan, "search": search, "count": count}

func parseMethod(arguments []string) (method, error) {
	if len(arguments) == 1 && methods[arguments[0]] != nil {
		return methods[arguments[0]], nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	return nil, fmt.Errorf("say what to do, one of %s: got %q", names, arguments)
}

// search ranks the sentences that mention the topic.
func search(notes noteSet, topic string) answer {
	var findings []finding
	for _, note := range notes {
		for _, sentence := range note.sentences {
			if score := notes.score(sentence, keywords(topic)); score > 0 {
				findings = append(findings, finding{Note: note.title, Score: math.Round(score*100) / 100, Sentence: sentence.text})
			}
		}
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return cmp.Compare(b.Score, a.Score) })
	return answer{Findings: findings[:min(len(findings), maxFindings)]}
}

// score counts rare words of the topic more than common ones, repetitions ever less, and short sentences more than long ones.
func (l noteSet) score(in sentence, topic []string) float64 {
	sum := 0.0
	for _, word := range topic {
		times := float64(occurrences(in.words, word))
		sum += l.rarity(word) * times / (times + 0.5 + float64(len(in.words))/20)
	}
	return sum
}

// count returns how often the topic is mentioned, where, and beside which words.
func count(notes noteSet, topic string) answer {
	result := answer{Neighbors: topWords(notes.neighbors(topic), func(string) float64 { return 1 })}
	for _, note := range notes {
		before := result.Times
		for _, sentence := range note.sentences {
			result.Times += mentions(sentence, keywords(topic))
		}
		if result.Times > before {
			result.Notes = append(result.Notes, note.title)
		}
	}
	return result
}

// plan returns what to ask next: words that are near the topic and rare elsewhere.
func plan(notes noteSet, topic string) answer {
	result := answer{Notes: count(notes, topic).Notes}
	for _, word := range topWords(notes.neighbors(topic), notes.rarity) {
		result.NextTopics = append(result.NextTopics, word.Word)
	}
	return result
}

func mentions(in sentence, topic []string) int {
	sum := 0
	for _, word := range topic {
		sum += occurrences(in.words, word)
	}
	return sum
}

// neighbors counts the other words of the sentences that mention the topic.
func (l noteSet) neighbors(topic string) map[string]int {
	topicWords, times := keywords(topic), map[string]int{}
	for _, note := range l {
		for _, sentence := range note.sentences {
			if mentions(sentence, topicWords) == 0 {
				continue
			}
			for _, word := range sentence.words {
				if !slices.Contains(topicWords, word) {
					times[word]++
				}
			}
		}
	}
	return times
}

func occurrences(in []string, word string) int {
	times := 0
	for _, other := range in {
		if other == word {
			times++
		}
	}
	return times
}

// topWords are the words of the greatest weight.
func topWords(times map[string]int, weight func(string) float64) []wordCount {
	var tallies []wordCount
	for _, word := range slices.Sorted(maps.Keys(times)) {
		tallies = append(tallies, wordCount{word, times[word]})
	}
	slices.SortStableFunc(tallies, func(a, b wordCount) int {
		return cmp.Compare(float64(b.Times)*weight(b.Word), float64(a.Times)*weight(a.Word))
	})
	return tallies[:min(len(tallies), maxWords)]
}

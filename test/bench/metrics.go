package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// A metricsSnapshot is the operator's metrics at one moment.
type metricsSnapshot []sample

type sample struct {
	name, labels string // the labels as they are written
	value        float64
}

// read reads the operator's metrics.
func (o *operator) read(ctx context.Context) (metricsSnapshot, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+metricsPort+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	return samples(response.Body)
}

// linked returns how many agents are linked.
func (o *operator) linked(ctx context.Context) (float64, error) {
	metrics, err := o.read(ctx)
	return metrics.sum("swarm_link_agents"), err
}

// awaitLinked waits until so many agents are linked. After a restart of the operator they return one by one.
func (o *operator) awaitLinked(ctx context.Context, agents float64) error {
	if err := o.awaitLeading(ctx); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		linked, err := o.linked(ctx)
		return linked >= agents, err
	})
}

func samples(text io.Reader) (snapshot metricsSnapshot, err error) {
	scanner := bufio.NewScanner(text)
	for scanner.Scan() {
		series, value, found := cutLast(scanner.Text(), " ")
		if !found || strings.HasPrefix(series, "#") {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
		name, labels, _ := strings.Cut(series, "{")
		snapshot = append(snapshot, sample{name, labels, number})
	}
	return snapshot, scanner.Err()
}

func cutLast(text, separator string) (before, after string, found bool) {
	if at := strings.LastIndex(text, separator); at >= 0 {
		return text[:at], text[at+len(separator):], true
	}
	return text, "", false
}

// sum adds up the samples that have this name and, among their labels, these.
func (r metricsSnapshot) sum(name string, labels ...string) (total float64) {
	for _, one := range r {
		if one.name == name && one.hasLabels(labels) {
			total += one.value
		}
	}
	return total
}

func (s sample) hasLabels(labels []string) bool {
	return !slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(s.labels, label) })
}

// buckets are those of a histogram, by upper bound.
func (r metricsSnapshot) buckets(name string, labels ...string) map[float64]float64 {
	buckets := map[float64]float64{}
	for _, s := range r {
		_, bound, found := strings.Cut(s.labels, `le="`)
		if s.name != name+"_bucket" || !found || !s.hasLabels(labels) {
			continue
		}
		bound, _, _ = strings.Cut(bound, `"`)
		if limit, err := strconv.ParseFloat(bound, 64); err == nil {
			buckets[limit] += s.value
		}
	}
	return buckets
}

// quantileBound returns the upper bound of the bucket that contains a quantile of the observations between two readings, and their number.
func quantileBound(before, after map[float64]float64, share float64) (limit time.Duration, observed int) {
	total := after[math.Inf(1)] - before[math.Inf(1)]
	threshold := math.Inf(1)
	for each, count := range after {
		if count-before[each] >= share*total && cmp.Less(each, threshold) {
			threshold = each
		}
	}
	if math.IsInf(threshold, 1) {
		return time.Hour, int(total)
	}
	return time.Duration(threshold * float64(time.Second)), int(total)
}

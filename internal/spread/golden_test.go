package spread

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

type event struct {
	tells   string
	happens func(*cluster)
	lasts   time.Duration
}

func share(policy Policy) func(*cluster) { return func(c *cluster) { c.Policy = &policy } }

func size(replicas int) func(*cluster) { return func(c *cluster) { c.Replicas = replicas } }

func spotNodes(room int) func(*cluster) {
	return func(c *cluster) {
		c.room[Spot], c.Spot.Returned = room, c.Now
	}
}

func lose(class Class) func(*cluster) {
	return func(c *cluster) {
		c.room[class] = 0
		for n := range c.Pods {
			if c.Pods[n].Node == class {
				c.Pods[n].Phase = Terminating
			}
		}
	}
}

var stories = []struct {
	name   string
	begins func() *cluster
	events []event
}{
	{"R02-created-and-scaled", func() *cluster { return begin(sixty, 10, nil) }, []event{
		{"10 replicas, at least 2 on-demand, 60% spot", func(*cluster) {}, time.Minute},
		{"15 replicas", size(15), time.Minute},
		{"5 replicas", size(5), time.Minute},
		{"1 replica", size(1), time.Minute},
	}},
	{"R04-share-changed-within-a-budget", func() *cluster { return begin(sixty, 10, right()) }, []event{
		{"the share becomes 80%, minAvailable is 9", func(c *cluster) { share(Policy{2, 80})(c); c.minAvailable = 9; c.Budget.Step = 5 }, 2 * time.Minute},
		{"the share becomes 20%, minAvailable is 10", func(c *cluster) { share(Policy{2, 20})(c); c.minAvailable = 10 }, time.Minute},
		{"minAvailable is 8", func(c *cluster) { c.minAvailable = 8 }, 3 * time.Minute},
		{"the share becomes abc", func(c *cluster) { _, err := Parse("2", "abc"); c.Problem = err.Error() }, time.Minute},
	}},
	{"R06-spot-vanishes-and-returns", func() *cluster { return begin(sixty, 10, right()) }, []event{
		{"every spot node is gone", lose(Spot), 3 * time.Minute},
		{"15 minutes pass: spot is tried again, in vain", func(*cluster) {}, 15 * time.Minute},
		{"spot nodes are back", func(c *cluster) { spotNodes(1000)(c); c.Budget.Step = 3 }, 4 * time.Minute},
	}},
	{"R06-on-demand-vanishes", func() *cluster { return begin(sixty, 10, right()) }, []event{
		{"every on-demand node is gone", lose(OnDemand), 3 * time.Minute},
		{"on-demand nodes are back", func(c *cluster) { c.room[OnDemand], c.OnDemand.Returned = 1000, c.Now }, 4 * time.Minute},
	}},
	{"R06-interruption-notice", func() *cluster { return begin(sixty, 10, right()) }, []event{
		{"the node of web-2 and web-3 is going away, minAvailable is 9", func(c *cluster) { c.minAvailable = 9; c.Pods[2].Doomed, c.Pods[3].Doomed = true, true }, time.Minute},
	}},
	{"R26-admission-was-down", func() *cluster {
		pods := crew("oooooooooo")
		for n := range pods {
			pods[n].Number, pods[n].Made = Unnumbered, ""
		}
		return begin(sixty, 10, pods)
	}, []event{{"10 pods made without us, all on-demand; 2 may be away", func(c *cluster) { c.Budget.Step = 2 }, 4 * time.Minute}}},
}

func TestStories(t *testing.T) {
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			compare(t, "testdata/"+story.name+".txt", told(story.begins(), story.events))
		})
	}
}

// told plays events and records every decision that differs from the one before.
func told(c *cluster, events []event) string {
	var text strings.Builder
	start, before := c.Now, ""
	for _, event := range events {
		fmt.Fprintf(&text, "# %s\n", event.tells)
		event.happens(c)
		for until := c.Now.Add(event.lasts); c.Now.Before(until); {
			c.tick()
			if line := c.line(); line != before {
				fmt.Fprintf(&text, "%7s  %s", c.Now.Sub(start), line)
				before = line
			}
		}
	}
	return text.String()
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs, see it with -update:\n%s", file, got)
	}
}

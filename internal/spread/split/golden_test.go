package split

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swarm-io/swarm-operator/internal/testkit/golden"
)

type clusterEvent struct {
	title    string
	apply    func(*cluster)
	duration time.Duration
}

func setPolicy(policy Policy) func(*cluster) { return func(c *cluster) { c.Policy = &policy } }

func setReplicas(replicas int) func(*cluster) { return func(c *cluster) { c.Replicas = replicas } }

func setSpotCapacity(room int) func(*cluster) {
	return func(c *cluster) {
		c.maxPods[Spot], c.Spot.NodeAvailableAt = room, c.Now
	}
}

func removeNodes(class Class) func(*cluster) {
	return func(c *cluster) {
		c.maxPods[class] = 0
		for n := range c.Pods {
			if c.Pods[n].NodeClass == class {
				c.Pods[n].Phase = Terminating
			}
		}
	}
}

var scenarios = []struct {
	name   string
	begins func() *cluster
	events []clusterEvent
}{
	{"R02-created-and-scaled", func() *cluster { return newCluster(policy60, 10, nil) }, []clusterEvent{
		{"10 replicas, at least 2 on-demand, 60% spot", func(*cluster) {}, time.Minute},
		{"15 replicas", setReplicas(15), time.Minute},
		{"5 replicas", setReplicas(5), time.Minute},
		{"1 replica", setReplicas(1), time.Minute},
	}},
	{"R04-share-changed-within-a-budget", func() *cluster { return newCluster(policy60, 10, balancedPods()) }, []clusterEvent{
		{"the share becomes 80%, minAvailable is 9", func(c *cluster) { setPolicy(Policy{2, 80})(c); c.minAvailable = 9; c.Budget.Step = 5 },
			2 * time.Minute},
		{"the share becomes 20%, minAvailable is 10", func(c *cluster) { setPolicy(Policy{2, 20})(c); c.minAvailable = 10 }, time.Minute},
		{"minAvailable is 8", func(c *cluster) { c.minAvailable = 8 }, 3 * time.Minute},
		{"the share becomes abc", func(c *cluster) { _, err := Parse("2", "abc"); c.Problem = err.Error() }, time.Minute},
	}},
	{"R06-spot-vanishes-and-returns", func() *cluster { return newCluster(policy60, 10, balancedPods()) }, []clusterEvent{
		{"every spot node is gone", removeNodes(Spot), 3 * time.Minute},
		{"15 minutes pass: spot is tried again, in vain", func(*cluster) {}, 15 * time.Minute},
		{"spot nodes are back", func(c *cluster) { setSpotCapacity(1000)(c); c.Budget.Step = 3 }, 4 * time.Minute},
	}},
	{"R06-on-demand-vanishes", func() *cluster { return newCluster(policy60, 10, balancedPods()) }, []clusterEvent{
		{"every on-demand node is gone", removeNodes(OnDemand), 3 * time.Minute},
		{"on-demand nodes are back", func(c *cluster) { c.maxPods[OnDemand], c.OnDemand.NodeAvailableAt = 1000, c.Now }, 4 * time.Minute},
	}},
	{"R06-interruption-notice", func() *cluster { return newCluster(policy60, 10, balancedPods()) }, []clusterEvent{
		{"the node of web-2 and web-3 is going away, minAvailable is 9", func(c *cluster) {
			c.minAvailable = 9
			c.Pods[2].NodeTerminating, c.Pods[3].NodeTerminating = true, true
		}, time.Minute},
	}},
	{"R26-admission-was-down", func() *cluster {
		pods := podsOnClasses("oooooooooo")
		for n := range pods {
			pods[n].Number, pods[n].AssignedClass = Unnumbered, ""
		}
		return newCluster(policy60, 10, pods)
	}, []clusterEvent{{"10 pods made without us, all on-demand; 2 may be away", func(c *cluster) { c.Budget.Step = 2 }, 4 * time.Minute}}},
}

func TestScenarios(t *testing.T) {
	for _, story := range scenarios {
		t.Run(story.name, func(t *testing.T) {
			golden.Compare(t, "testdata/"+story.name+".txt", playEvents(story.begins(), story.events))
		})
	}
}

// playEvents applies events and records every decision that differs from the previous one.
func playEvents(c *cluster, events []clusterEvent) string {
	var text strings.Builder
	start, before := c.Now, ""
	for _, event := range events {
		fmt.Fprintf(&text, "# %s\n", event.title)
		event.apply(c)
		for until := c.Now.Add(event.duration); c.Now.Before(until); {
			c.tick()
			if line := c.describe(); line != before {
				fmt.Fprintf(&text, "%7s  %s", c.Now.Sub(start), line)
				before = line
			}
		}
	}
	return text.String()
}

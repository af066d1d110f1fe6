package v1alpha1

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditionsSayWhatTheyAreCalled(t *testing.T) {
	const generation = 7
	cases := []struct {
		condition metav1.Condition
		kind      string
		status    metav1.ConditionStatus
	}{
		{Ready(generation, ReasonAvailable, "six agents"), ConditionReady, metav1.ConditionTrue},
		{NotReady(generation, ReasonSwarmNotFound, "no swarm"), ConditionReady, metav1.ConditionFalse},
		{Progressing(generation, ReasonScaling, "four of six"), ConditionProgressing, metav1.ConditionTrue},
		{NotProgressing(generation, ReasonSettled, ""), ConditionProgressing, metav1.ConditionFalse},
		{Degraded(generation, ReasonJobsUnassigned, "two jobs"), ConditionDegraded, metav1.ConditionTrue},
		{NotDegraded(generation), ConditionDegraded, metav1.ConditionFalse},
		{Linked(generation), ConditionLinked, metav1.ConditionTrue},
		{Unlinked(generation, ReasonLinkLost, "silent"), ConditionLinked, metav1.ConditionFalse},
		{Converged(generation, "revision 3"), ConditionConverged, metav1.ConditionTrue},
		{Converging(generation, ReasonConverging, "worker-1"), ConditionConverged, metav1.ConditionFalse},
	}
	for _, c := range cases {
		if c.condition.Type != c.kind || c.condition.Status != c.status {
			t.Errorf("%s is %s, want %s %s", c.condition.Type, c.condition.Status, c.kind, c.status)
		}
		if c.condition.ObservedGeneration != generation || c.condition.Reason == "" {
			t.Errorf("%s lacks its generation or reason: %+v", c.kind, c.condition)
		}
	}
}

// A condition that says the same again keeps the time of its last change, so that a quiet cluster stays quiet.
func TestTheSameConditionIsNoChange(t *testing.T) {
	var stored []metav1.Condition
	if !meta.SetStatusCondition(&stored, Ready(1, ReasonAvailable, "")) {
		t.Fatal("the first condition is a change")
	}
	if meta.SetStatusCondition(&stored, Ready(1, ReasonAvailable, "")) {
		t.Error("the same condition again is a change")
	}
}

func TestSpreadAnnotationsTakeAnyPrefix(t *testing.T) {
	if key := SpreadMinOnDemand.Key(Prefix); key != "swarm.io/min-on-demand" {
		t.Error(key)
	}
	if key := SpreadMode.Key("example.com/"); key != "example.com/spread" {
		t.Error(key)
	}
}

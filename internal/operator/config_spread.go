package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/swarm-io/swarm-operator/internal/spread/snapshot"
	"github.com/swarm-io/swarm-operator/internal/spread/window"
)

// spreadDefaults are also those of the command line.
func spreadDefaults() Spread {
	defaults := snapshot.DefaultSettings()
	return Spread{
		AnnotationPrefix: defaults.Prefix, PendingDeadline: metav1.Duration{Duration: defaults.PendingDeadline},
		Cooldown: metav1.Duration{Duration: defaults.Cooldown},
		Step:     defaults.Step, Provisioner: string(defaults.Provisioner), Notices: strings.Join(defaults.Notices, ","),
		DisruptionWindows: defaults.Windows,
	}
}

// spreadSettings returns the settings for admission, the controller and the command line. The configuration must have passed check.
func (c Config) spreadSettings() snapshot.Settings {
	spot, _ := snapshot.ParseLabels(c.NodeLabels.Spot)
	onDemand, _ := snapshot.ParseLabels(c.NodeLabels.OnDemand)
	return snapshot.Settings{
		Prefix: c.Spread.AnnotationPrefix, Spot: spot, OnDemand: onDemand,
		Notices: splitList(c.Spread.Notices), Provisioner: snapshot.Provisioner(c.Spread.Provisioner),
		PendingDeadline: c.Spread.PendingDeadline.Duration, Cooldown: c.Spread.Cooldown.Duration,
		Step:    intstr.Parse(c.Spread.Step.String()), // a number decoded over a percentage leaves the text of the percentage behind
		Windows: c.Spread.DisruptionWindows, ReadOnly: c.Controller.ReadOnly,
	}
}

// splitList splits at commas and trims spaces.
func splitList(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	for n := range parts {
		parts[n] = strings.TrimSpace(parts[n])
	}
	return parts
}

func (n NodeLabels) validate() error {
	spot, spotErr := checkNodeLabels("nodeLabels.spot", n.Spot)
	onDemand, onDemandErr := checkNodeLabels("nodeLabels.onDemand", n.OnDemand)
	for _, label := range onDemand {
		if slices.Contains(spot, label) {
			return fmt.Errorf("nodeLabels.spot and nodeLabels.onDemand both have %q: a node is one or the other, so take it out of one",
				label.Key+"="+label.Value)
		}
	}
	return errors.Join(spotErr, onDemandErr)
}

// checkNodeLabels requires valid node labels. Each of them makes the affinity of pods longer.
func checkNodeLabels(key, value string) ([]snapshot.Label, error) {
	const maxLabels = 10
	labels, err := snapshot.ParseLabels(value)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key, err)
	case len(labels) > maxLabels:
		return nil, fmt.Errorf("%s has %d labels: write at most %d", key, len(labels), maxLabels)
	}
	return labels, nil
}

func (s Spread) validate() error {
	_, windowsErr := window.Parse(s.DisruptionWindows)
	return errors.Join(
		checkAnnotationPrefix("spread.annotationPrefix", s.AnnotationPrefix),
		checkAtLeast("spread.pendingDeadline", s.PendingDeadline, 5*time.Second),
		checkAtMost("spread.pendingDeadline", s.PendingDeadline, time.Hour),
		checkAtLeast("spread.cooldown", s.Cooldown, time.Second),
		checkAtMost("spread.cooldown", s.Cooldown, time.Hour),
		checkCountOrPercent("spread.step", s.Step),
		checkOneOf("spread.provisioner", s.Provisioner, string(snapshot.ProvisionerAuto), string(snapshot.ProvisionerPresent),
			string(snapshot.ProvisionerNone)),
		checkTaints("spread.notices", s.Notices),
		selectorError("spread.disruptionWindows", windowsErr),
	)
}

// checkAnnotationPrefix requires the part of an annotation's key up to the slash.
func checkAnnotationPrefix(key, value string) error {
	domain, hasSlash := strings.CutSuffix(value, "/")
	if !hasSlash || len(validation.IsDNS1123Subdomain(domain)) > 0 {
		return fmt.Errorf("%s is %q: write a domain and a slash, such as \"spread.example.org/\"", key, value)
	}
	return nil
}

// checkCountOrPercent requires a number of at least 1, or a percentage of at least 1%.
func checkCountOrPercent(key string, value intstr.IntOrString) error {
	highest := 10_000
	if value.Type == intstr.String {
		highest = 100
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(&value, 100, true)
	if err != nil || number < 1 || number > highest {
		return fmt.Errorf("%s is %q: write a number of replicas from 1 to 10000 or a share from 1%% to 100%%, such as 25%%", key, value.String())
	}
	return nil
}

// checkTaints requires keys of taints, or prefixes of keys with a trailing star.
func checkTaints(key, value string) error {
	isInvalid := func(text string) bool {
		keyPrefix, hasStar := strings.CutSuffix(text, "*")
		if hasStar && keyPrefix != "" { // a star alone would match every tainted node
			text = keyPrefix + "x"
		}
		return len(validation.IsQualifiedName(text)) > 0
	}
	if slices.ContainsFunc(splitList(value), isInvalid) {
		return fmt.Errorf("%s is %q: write comma-separated keys of taints, such as \"example.org/going,example.com/stop-*\"", key, value)
	}
	return nil
}

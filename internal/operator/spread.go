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

	"github.com/swarm-io/swarm-operator/internal/survey"
	windows "github.com/swarm-io/swarm-operator/internal/window"
)

// spreadDefaults are also those of the command line.
func spreadDefaults() Spread {
	standard := survey.Standard()
	return Spread{
		AnnotationPrefix: standard.Prefix, PendingDeadline: metav1.Duration{Duration: standard.PendingDeadline}, Cooldown: metav1.Duration{Duration: standard.Cooldown},
		Step: standard.Step, Provisioner: string(standard.Provisioner), Notices: strings.Join(standard.Notices, ","), DisruptionWindows: standard.Windows,
	}
}

// spreading returns the settings for admission, the controller and the command line. The configuration must have passed check.
func (c Config) spreading() survey.Settings {
	spot, _ := survey.ParseLabels(c.NodeLabels.Spot)
	onDemand, _ := survey.ParseLabels(c.NodeLabels.OnDemand)
	return survey.Settings{
		Prefix: c.Spread.AnnotationPrefix, Spot: spot, OnDemand: onDemand,
		Notices: listed(c.Spread.Notices), Provisioner: survey.Provisioner(c.Spread.Provisioner),
		PendingDeadline: c.Spread.PendingDeadline.Duration, Cooldown: c.Spread.Cooldown.Duration,
		Step:    intstr.Parse(c.Spread.Step.String()), // a number decoded over a percentage leaves the text of the percentage behind
		Windows: c.Spread.DisruptionWindows, ReadOnly: c.Controller.ReadOnly,
	}
}

// listed splits at commas and trims spaces.
func listed(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	for n := range parts {
		parts[n] = strings.TrimSpace(parts[n])
	}
	return parts
}

func (n NodeLabels) check() error {
	spot, wrongSpot := nodeLabels("nodeLabels.spot", n.Spot)
	onDemand, wrongOnDemand := nodeLabels("nodeLabels.onDemand", n.OnDemand)
	for _, label := range onDemand {
		if slices.Contains(spot, label) {
			return fmt.Errorf("nodeLabels.spot and nodeLabels.onDemand both have %q: a node is one or the other, so take it out of one", label.Key+"="+label.Value)
		}
	}
	return errors.Join(wrongSpot, wrongOnDemand)
}

// nodeLabels requires valid node labels. Each of them makes the affinity of pods longer.
func nodeLabels(key, value string) ([]survey.Label, error) {
	const most = 10
	labels, err := survey.ParseLabels(value)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key, err)
	case len(labels) > most:
		return nil, fmt.Errorf("%s has %d labels: write at most %d", key, len(labels), most)
	}
	return labels, nil
}

func (s Spread) check() error {
	_, unread := windows.Parse(s.DisruptionWindows)
	return errors.Join(
		annotationPrefix("spread.annotationPrefix", s.AnnotationPrefix),
		atLeast("spread.pendingDeadline", s.PendingDeadline, 5*time.Second),
		atMost("spread.pendingDeadline", s.PendingDeadline, time.Hour),
		atLeast("spread.cooldown", s.Cooldown, time.Second),
		atMost("spread.cooldown", s.Cooldown, time.Hour),
		countOrShare("spread.step", s.Step),
		oneOf("spread.provisioner", s.Provisioner, string(survey.ProvisionerAuto), string(survey.ProvisionerPresent), string(survey.ProvisionerNone)),
		taints("spread.notices", s.Notices),
		selects("spread.disruptionWindows", unread),
	)
}

// annotationPrefix requires the part of an annotation's key up to the slash.
func annotationPrefix(key, value string) error {
	domain, slashed := strings.CutSuffix(value, "/")
	if !slashed || len(validation.IsDNS1123Subdomain(domain)) > 0 {
		return fmt.Errorf("%s is %q: write a domain and a slash, such as \"spread.example.org/\"", key, value)
	}
	return nil
}

// countOrShare requires a number of at least 1, or a percentage of at least 1%.
func countOrShare(key string, value intstr.IntOrString) error {
	most := 10_000
	if value.Type == intstr.String {
		most = 100
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(&value, 100, true)
	if err != nil || number < 1 || number > most {
		return fmt.Errorf("%s is %q: write a number of replicas from 1 to 10000 or a share from 1%% to 100%%, such as 25%%", key, value.String())
	}
	return nil
}

// taints requires keys of taints, or prefixes of keys with a trailing star.
func taints(key, value string) error {
	wrong := func(text string) bool {
		start, open := strings.CutSuffix(text, "*")
		if open && start != "" { // a star alone would match every tainted node
			text = start + "x"
		}
		return len(validation.IsQualifiedName(text)) > 0
	}
	if slices.ContainsFunc(listed(value), wrong) {
		return fmt.Errorf("%s is %q: write keys of taints parted by commas, such as \"example.org/going,example.com/stop-*\"", key, value)
	}
	return nil
}

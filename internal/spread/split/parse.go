package split

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// defaultSpotPercent is the share when only a floor is given: everything above it may be spot.
const defaultSpotPercent = 100

// Parse reads a policy from the values of its two annotations; a missing one is "". It returns nil, meaning no policy, if both are
// missing. Spaces around a value are ignored, spaces within are rejected.
func Parse(minOnDemand, spotPercentage string) (*Policy, error) {
	floor, share := strings.TrimSpace(minOnDemand), strings.TrimSpace(spotPercentage)
	if floor == "" && share == "" {
		return nil, nil
	}
	policy := Policy{SpotPercent: defaultSpotPercent}
	var err error
	if floor != "" {
		if policy.MinOnDemand, err = parseFloor(floor); err != nil {
			return nil, err
		}
	}
	if share != "" {
		if policy.SpotPercent, err = parsePercent(share); err != nil {
			return nil, err
		}
	}
	return &policy, nil
}

func parseFloor(text string) (int, error) {
	floor, whole := parseDigits(text)
	if !whole || floor > math.MaxInt32 {
		return 0, fmt.Errorf(`min-on-demand is %s: write a number of replicas, such as "2"`, quote(text))
	}
	return floor, nil
}

func parsePercent(text string) (int, error) {
	percent, whole := parseDigits(strings.TrimSuffix(text, "%"))
	if !whole || percent > 100 {
		return 0, fmt.Errorf(`spot-percentage is %s: write a whole number from 0 to 100, such as "60" or "60%%"`, quote(text))
	}
	return percent, nil
}

// parseDigits reads digits only: no sign, no space, no decimal point.
func parseDigits(text string) (int, bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.Atoi(text)
	return number, err == nil
}

// quote makes user input fit for a line of status.
func quote(text string) string {
	const longest = 40
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return strconv.QuoteToASCII(text)
}

// String returns the value of the settings annotation, such as "min-on-demand:2,spot-percentage:60".
func (p Policy) String() string {
	return fmt.Sprintf("%s:%d,%s:%d", minOnDemandKey, p.MinOnDemand, spotPercentageKey, p.SpotPercent)
}

const minOnDemandKey, spotPercentageKey = "min-on-demand", "spot-percentage"

// ParsePolicy reads only what String wrote.
func ParsePolicy(text string) (*Policy, error) {
	first, second, _ := strings.Cut(text, ",")
	floor, _ := strings.CutPrefix(first, minOnDemandKey+":")
	share, _ := strings.CutPrefix(second, spotPercentageKey+":")
	policy, err := Parse(floor, share)
	if err != nil || policy == nil || policy.String() != text {
		return nil, fmt.Errorf(`settings are %s: expected the form "min-on-demand:2,spot-percentage:60"`, quote(text))
	}
	return policy, nil
}

// Distribution is the number of pods in each class.
type Distribution struct{ OnDemand, Spot int }

// DesiredDistribution returns the desired distribution of so many replicas.
func DesiredDistribution(policy Policy, replicas int) Distribution {
	spot, onDemand := Split(policy, replicas)
	return Distribution{OnDemand: onDemand, Spot: spot}
}

// String returns the value of the distribution annotations, such as "on-demand:4,spot:6".
func (d Distribution) String() string {
	return fmt.Sprintf("%s:%d,%s:%d", OnDemand, d.OnDemand, Spot, d.Spot)
}

// ParseDistribution reads only what String wrote.
func ParseDistribution(text string) (Distribution, error) {
	first, second, _ := strings.Cut(text, ",")
	onDemand, okOnDemand := parseCount(first, OnDemand)
	spot, okSpot := parseCount(second, Spot)
	distribution := Distribution{OnDemand: onDemand, Spot: spot}
	if !okOnDemand || !okSpot || distribution.String() != text {
		return Distribution{}, fmt.Errorf(`distribution is %s: expected the form "on-demand:4,spot:6"`, quote(text))
	}
	return distribution, nil
}

func parseCount(text string, class Class) (int, bool) {
	digits, found := strings.CutPrefix(text, string(class)+":")
	number, whole := parseDigits(digits)
	return number, found && whole
}

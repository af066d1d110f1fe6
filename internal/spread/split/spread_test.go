package split

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		reason             string
		replicas, min, pct int
		spot, onDemand     int
	}{
		{"[R02/ten-replicas] the example of the contract", 10, 2, 60, 6, 4},
		{"[R02/three-replicas] the floor is served first", 3, 2, 60, 1, 2},
		{"[R02/four-replicas] the floor cuts the share", 4, 3, 75, 1, 3},
		{"fewer replicas than the floor: all on-demand", 3, 5, 100, 0, 3},
		{"as many as the floor", 5, 5, 100, 0, 5},
		{"no floor, all spot", 7, 0, 100, 7, 0},
		{"no spot", 7, 0, 0, 0, 7},
		{"parts are rounded down", 1, 0, 99, 0, 1},
		{"nothing", 0, 2, 60, 0, 0},
		{"less than nothing", -3, 2, 60, 0, 0},
		{"more than could be multiplied", math.MaxInt, 0, 100, math.MaxInt, 0},
	} {
		t.Run(c.reason, func(t *testing.T) {
			spot, onDemand := Split(Policy{MinOnDemand: c.min, SpotPercent: c.pct}, c.replicas)
			if spot != c.spot || onDemand != c.onDemand {
				t.Errorf("got %d spot and %d on-demand, want %d and %d", spot, onDemand, c.spot, c.onDemand)
			}
		})
	}
}

func TestEveryPrefixHasTheRightMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := drawPolicy(t)
		var got Distribution
		for k := range 150 {
			before, _ := Split(policy, k)
			after, onDemand := Split(policy, k+1)
			if grown := after - before; grown < 0 || grown > 1 {
				t.Fatalf("spot grows by %d from %d to %d replicas", grown, k, k+1)
			}
			if onDemand < min(policy.MinOnDemand, k+1) {
				t.Fatalf("%d of %d on-demand is below the floor", onDemand, k+1)
			}
			if Of(policy, k) == Spot {
				got.Spot++
			} else {
				got.OnDemand++
			}
			if want := DesiredDistribution(policy, k+1); got != want || want.Spot+want.OnDemand != k+1 {
				t.Fatalf("the first %d replicas are %v, want %v", k+1, got, want)
			}
		}
	})
}

func TestNumbersBelowTheFloorAreOnDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := drawPolicy(t)
		for k := range policy.MinOnDemand {
			if Of(policy, k) != OnDemand {
				t.Fatalf("number %d is spot under %+v", k, policy)
			}
		}
	})
}

func drawPolicy(t *rapid.T) Policy {
	return Policy{MinOnDemand: rapid.IntRange(0, 20).Draw(t, "min"), SpotPercent: rapid.IntRange(0, 100).Draw(t, "percent")}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		reason, min, pct string
		want             Policy
	}{
		{"both", "2", "60", Policy{2, 60}},
		{"with a percent sign", "2", "60%", Policy{2, 60}},
		{"blanks around, as folded YAML leaves them", " 2\n", " 60% ", Policy{2, 60}},
		{"only a floor: everything above may be spot", "2", "", Policy{2, 100}},
		{"only a share: no floor", "", "60", Policy{0, 60}},
		{"the ends of the range", "0", "0%", Policy{0, 0}},
		{"a floor above any replicas", "2147483647", "100", Policy{math.MaxInt32, 100}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got, err := Parse(c.min, c.pct)
			if err != nil || got == nil || *got != c.want {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
	if got, err := Parse("", " "); got != nil || err != nil {
		t.Errorf("neither number: got %v, %v, want no policy", got, err)
	}
}

func TestParseErrorsNameTheFix(t *testing.T) {
	for _, c := range []struct{ reason, min, pct, want string }{
		{"above 100", "", "101", `spot-percentage is "101": write a whole number from 0 to 100, such as "60" or "60%"`},
		{"negative", "", "-1", `is "-1": write a whole`},
		{"text", "", "abc", `is "abc": write a whole`},
		{"a blank within", "", "60 %", `is "60 %": write a whole number from 0 to 100, such as "60" or "60%"`},
		{"a part", "", "60.5", `is "60.5": write a whole`},
		{"a sign", "", "+60", `is "+60": write a whole`},
		{"two signs", "", "60%%", `is "60%%": write a whole`},
		{"only the sign", "", "%", `is "%": write a whole`},
		{"too large for an int", "", "99999999999999999999", "write a whole"},
		{"floor negative", "-1", "60", `min-on-demand is "-1": write a number of replicas, such as "2"`},
		{"floor in percent", "20%", "60", `min-on-demand is "20%": write a number`},
		{"floor too large for replicas", "2147483648", "60", "write a number"},
		{"a novel", "", strings.Repeat("x", 5000), `xxx...": write a whole`},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got, err := Parse(c.min, c.pct)
			if got != nil || err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 200 {
				t.Errorf("got %v, %v, want an error with %s", got, err, c.want)
			}
		})
	}
}

func TestDistribution(t *testing.T) {
	if got := (Distribution{OnDemand: 4, Spot: 6}).String(); got != "on-demand:4,spot:6" {
		t.Errorf("got %q", got)
	}
	for _, text := range []string{"", "on-demand:4", "spot:6,on-demand:4", "on-demand:4, spot:6", "on-demand:04,spot:6", "on-demand:-4,spot:6",
		"on-demand:4,spot:6,", "on-demand:,spot:6"} {
		if got, err := ParseDistribution(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("2", "60%")
	f.Add("", " 101")
	f.Add("-1", "60 %")
	f.Fuzz(func(t *testing.T, floor, share string) {
		policy, err := Parse(floor, share)
		if err != nil && (policy != nil || !strings.Contains(err.Error(), "write a") || strings.ContainsAny(err.Error(), "\n\r")) {
			t.Fatalf("%v, %v", policy, err)
		}
		if policy != nil && (policy.MinOnDemand < 0 || policy.SpotPercent < 0 || policy.SpotPercent > 100) {
			t.Fatalf("%q and %q gave %+v", floor, share, *policy)
		}
	})
}

func FuzzParseDistribution(f *testing.F) {
	f.Add("on-demand:4,spot:6")
	f.Add("on-demand:4,spot:+6")
	f.Fuzz(func(t *testing.T, text string) {
		if read, err := ParseDistribution(text); err == nil && read.String() != text {
			t.Fatalf("%q was read as %q", text, read)
		}
	})
}

func TestPolicyRoundTrip(t *testing.T) {
	for _, policy := range []Policy{{}, {MinOnDemand: 2, SpotPercent: 60}, {MinOnDemand: 2147483647, SpotPercent: 100}} {
		if parsed, err := ParsePolicy(policy.String()); err != nil || *parsed != policy {
			t.Errorf("%s: got %v, %v", policy, parsed, err)
		}
	}
	for _, text := range []string{"", "2,60", "min-on-demand:2", "min-on-demand:2,spot-percentage:60,", "min-on-demand:2,spot-percentage:060",
		"min-on-demand:2,spot-percentage:101", "spot-percentage:60,min-on-demand:2"} {
		if parsed, err := ParsePolicy(text); err == nil {
			t.Errorf("%q: got %v", text, parsed)
		}
	}
}

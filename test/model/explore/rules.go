package explore

// A Rule is a part of a protocol that can be removed, to show why it is needed.
type Rule uint8

// Rules is a set of active rules. A protocol has at most 64.
type Rules uint64

// All returns the set of the first rules: the whole protocol.
func All(count Rule) Rules { return 1<<count - 1 }

// Without returns the set without one rule.
func (r Rules) Without(rule Rule) Rules { return r &^ (1 << rule) }

// Has reports whether a rule is active.
func (r Rules) Has(rule Rule) bool { return r&(1<<rule) != 0 }

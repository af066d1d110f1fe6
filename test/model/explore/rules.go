package explore

// A Rule is a part of a protocol that can be left out, to see what it is good for.
type Rule uint8

// Rules is a set of rules that hold. A protocol has at most 64.
type Rules uint64

// All is the set of the first rules: the whole protocol.
func All(count Rule) Rules { return 1<<count - 1 }

// Without is the set without one rule.
func (r Rules) Without(rule Rule) Rules { return r &^ (1 << rule) }

// Has reports whether a rule holds.
func (r Rules) Has(rule Rule) bool { return r&(1<<rule) != 0 }

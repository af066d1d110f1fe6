package assign

// The two heaps of a pass.
const (
	lowest = iota
	highest
)

// heap keeps workers ordered while their loads change, with the first one available at once. Every worker knows its position.
type heap struct {
	items []*seat
	side  int
	less  func(a, b *seat) bool
}

func leastLoaded(a, b *seat) bool {
	return a.load < b.load || a.load == b.load && a.Ordinal < b.Ordinal
}

func mostLoaded(a, b *seat) bool { return a.load > b.load || a.load == b.load && a.Ordinal < b.Ordinal }

func heapOf(seats []*seat, side int, less func(a, b *seat) bool) *heap {
	h := &heap{items: make([]*seat, 0, len(seats)), side: side, less: less}
	for _, item := range seats {
		h.push(item)
	}
	return h
}

func (h *heap) push(item *seat) {
	h.items = append(h.items, item)
	h.put(len(h.items)-1, item)
	h.up(len(h.items) - 1)
}

func (h *heap) put(at int, item *seat) {
	h.items[at] = item
	item.rank[h.side] = at
}

// fix restores the order after the load of a worker has changed, if the worker is in the heap.
func (h *heap) fix(item *seat) {
	at := item.rank[h.side]
	if at < len(h.items) && h.items[at] == item {
		h.up(at)
		h.down(item.rank[h.side])
	}
}

func (h *heap) remove(item *seat) {
	at, end := item.rank[h.side], len(h.items)-1
	last := h.items[end]
	h.items = h.items[:end]
	if at < end {
		h.put(at, last)
		h.fix(last)
	}
}

// first returns the first worker that fits, or nil.
func (h *heap) first(fits func(*seat) bool) (found *seat) {
	var skipped []*seat
	for len(h.items) > 0 && found == nil {
		if top := h.items[0]; fits(top) {
			found = top
		} else {
			h.remove(top)
			skipped = append(skipped, top)
		}
	}
	for _, item := range skipped {
		h.push(item)
	}
	return found
}

func (h *heap) up(at int) {
	item := h.items[at]
	for at > 0 && h.less(item, h.items[(at-1)/2]) {
		h.put(at, h.items[(at-1)/2])
		at = (at - 1) / 2
	}
	h.put(at, item)
}

func (h *heap) down(at int) {
	item := h.items[at]
	for {
		child := 2*at + 1
		if child+1 < len(h.items) && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		if child >= len(h.items) || !h.less(h.items[child], item) {
			break
		}
		h.put(at, h.items[child])
		at = child
	}
	h.put(at, item)
}

package assign

// The two heaps of a pass.
const (
	minHeap = iota
	maxHeap
)

// heap keeps workers ordered while their loads change, with the first one available at once. Every worker knows its position.
type heap struct {
	items []*workerInfo
	id    int
	less  func(a, b *workerInfo) bool
}

func hasLessLoad(a, b *workerInfo) bool {
	return a.load < b.load || a.load == b.load && a.Ordinal < b.Ordinal
}

func hasMoreLoad(a, b *workerInfo) bool {
	return a.load > b.load || a.load == b.load && a.Ordinal < b.Ordinal
}

func newHeap(items []*workerInfo, id int, less func(a, b *workerInfo) bool) *heap {
	h := &heap{items: make([]*workerInfo, 0, len(items)), id: id, less: less}
	for _, item := range items {
		h.push(item)
	}
	return h
}

func (h *heap) push(item *workerInfo) {
	h.items = append(h.items, item)
	h.set(len(h.items)-1, item)
	h.up(len(h.items) - 1)
}

func (h *heap) set(i int, item *workerInfo) {
	h.items[i] = item
	item.heapIndex[h.id] = i
}

// fix restores the order after the load of a worker has changed, if the worker is in the heap.
func (h *heap) fix(item *workerInfo) {
	i := item.heapIndex[h.id]
	if i < len(h.items) && h.items[i] == item {
		h.up(i)
		h.down(item.heapIndex[h.id])
	}
}

func (h *heap) remove(item *workerInfo) {
	i, end := item.heapIndex[h.id], len(h.items)-1
	last := h.items[end]
	h.items = h.items[:end]
	if i < end {
		h.set(i, last)
		h.fix(last)
	}
}

// firstFit returns the first worker that fits, or nil.
func (h *heap) firstFit(fits func(*workerInfo) bool) (match *workerInfo) {
	var skipped []*workerInfo
	for len(h.items) > 0 && match == nil {
		if top := h.items[0]; fits(top) {
			match = top
		} else {
			h.remove(top)
			skipped = append(skipped, top)
		}
	}
	for _, item := range skipped {
		h.push(item)
	}
	return match
}

func (h *heap) up(i int) {
	item := h.items[i]
	for i > 0 && h.less(item, h.items[(i-1)/2]) {
		h.set(i, h.items[(i-1)/2])
		i = (i - 1) / 2
	}
	h.set(i, item)
}

func (h *heap) down(i int) {
	item := h.items[i]
	for {
		child := 2*i + 1
		if child+1 < len(h.items) && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		if child >= len(h.items) || !h.less(h.items[child], item) {
			break
		}
		h.set(i, h.items[child])
		i = child
	}
	h.set(i, item)
}

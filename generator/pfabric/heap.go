package pfabric

// heap is a binary heap of senders that know their places in it.
type heap struct {
	list  []*sender
	less  func(a, b *sender) bool
	place func(s *sender) *int // from 1; 0: absent
}

// moreUrgent orders senders by the rank of their next packet.
func moreUrgent(a, b *sender) bool {
	return a.urgency < b.urgency || a.urgency == b.urgency && a.connection < b.connection
}

// earlier orders senders by their timers.
func earlier(a, b *sender) bool {
	return a.expires < b.expires || a.expires == b.expires && a.connection < b.connection
}

// put adds s or moves it to where it belongs.
func (h *heap) put(s *sender) {
	at := h.place(s)
	if *at == 0 {
		h.list = append(h.list, s)
		*at = len(h.list)
	}
	h.fix(*at - 1)
}

// remove removes s if it is there.
func (h *heap) remove(s *sender) {
	at := h.place(s)
	if *at == 0 {
		return
	}
	i, last := *at-1, len(h.list)-1
	h.swap(i, last)
	h.list[last] = nil
	h.list = h.list[:last]
	*at = 0
	if i < last {
		h.fix(i)
	}
}

func (h *heap) fix(i int) {
	for i > 0 && h.less(h.list[i], h.list[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.list); child++ {
			if h.less(h.list[child], h.list[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *heap) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	*h.place(h.list[i]), *h.place(h.list[j]) = i+1, j+1
}

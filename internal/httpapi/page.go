package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The default and the maximum length of a list.
const (
	usualItems = 500
	mostItems  = 5000
)

// A page is a part of a list: up to limit items after a key.
type page struct {
	limit int
	after client.ObjectKey
}

// pageOf parses the parameters of a request, which may be empty.
func pageOf(limit, after string) (page, error) {
	asked := page{limit: usualItems}
	if limit != "" {
		number, err := strconv.Atoi(limit)
		if err != nil || number < 1 || number > mostItems {
			return page{}, refuse(http.StatusBadRequest, "limit is %q: choose 1 to %d", limit, mostItems)
		}
		asked.limit = number
	}
	if after != "" {
		namespace, name, _ := strings.Cut(after, "/")
		if namespace == "" || name == "" {
			return page{}, refuse(http.StatusBadRequest, "continue is %q: write what the list before had there, namespace/name", after)
		}
		asked.after = client.ObjectKey{Namespace: namespace, Name: name}
	}
	return asked, nil
}

// List is a page of a list. If Continue is set, there is more: pass it in the next request.
type List[S any] struct {
	Items    []S    `json:"items"`
	Continue string `json:"continue,omitempty"`
}

// listed returns the requested page of objects, ordered by key and converted by shape.
func listed[O client.Object, S any](objects []O, asked page, shape func(O) S) List[S] {
	objects = slices.DeleteFunc(objects, func(object O) bool { return inOrder(client.ObjectKeyFromObject(object), asked.after) <= 0 })
	slices.SortFunc(objects, func(a, b O) int { return inOrder(client.ObjectKeyFromObject(a), client.ObjectKeyFromObject(b)) })
	list := List[S]{Items: []S{}}
	if len(objects) > asked.limit {
		objects = objects[:asked.limit]
		list.Continue = client.ObjectKeyFromObject(objects[asked.limit-1]).String()
	}
	for _, object := range objects {
		list.Items = append(list.Items, shape(object))
	}
	return list
}

func inOrder(a, b client.ObjectKey) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// pointers avoids copying large items.
func pointers[T any](items []T) []*T {
	to := make([]*T, len(items))
	for n := range items {
		to[n] = &items[n]
	}
	return to
}

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
	defaultPageSize = 500
	maxPageSize     = 5000
)

// A page is a part of a list: up to limit items after a key.
type page struct {
	limit int
	after client.ObjectKey
}

// parsePage parses the parameters of a request, which may be empty.
func parsePage(limit, after string) (page, error) {
	parsed := page{limit: defaultPageSize}
	if limit != "" {
		number, err := strconv.Atoi(limit)
		if err != nil || number < 1 || number > maxPageSize {
			return page{}, problemf(http.StatusBadRequest, "limit is %q: choose 1 to %d", limit, maxPageSize)
		}
		parsed.limit = number
	}
	if after != "" {
		namespace, name, _ := strings.Cut(after, "/")
		if namespace == "" || name == "" {
			return page{}, problemf(http.StatusBadRequest, "continue is %q: write what the list before had there, namespace/name", after)
		}
		parsed.after = client.ObjectKey{Namespace: namespace, Name: name}
	}
	return parsed, nil
}

// List is a page of a list. If Continue is set, there is more: pass it in the next request.
type List[S any] struct {
	Items    []S    `json:"items"`
	Continue string `json:"continue,omitempty"`
}

// paginate returns the requested page of objects, ordered by key and converted by shape.
func paginate[O client.Object, S any](objects []O, part page, convert func(O) S) List[S] {
	objects = slices.DeleteFunc(objects, func(object O) bool { return compareKeys(client.ObjectKeyFromObject(object), part.after) <= 0 })
	slices.SortFunc(objects, func(a, b O) int { return compareKeys(client.ObjectKeyFromObject(a), client.ObjectKeyFromObject(b)) })
	list := List[S]{Items: []S{}}
	if len(objects) > part.limit {
		objects = objects[:part.limit]
		list.Continue = client.ObjectKeyFromObject(objects[part.limit-1]).String()
	}
	for _, object := range objects {
		list.Items = append(list.Items, convert(object))
	}
	return list
}

func compareKeys(a, b client.ObjectKey) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// toPointers avoids copying large items.
func toPointers[T any](items []T) []*T {
	result := make([]*T, len(items))
	for n := range items {
		result[n] = &items[n]
	}
	return result
}

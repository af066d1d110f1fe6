package arch

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	blockPattern   = regexp.MustCompile("(?ms)^```.*?^```$")
	notInAnchors   = regexp.MustCompile(`[^\pL\pN\- _]`)
)

// Links in the documentation lead to files and headings that exist.
func TestLinksLeadSomewhere(t *testing.T) {
	repository := os.DirFS(root(t))
	for _, page := range pages(t, repository) {
		for _, link := range linksOf(t, repository, page) {
			target, anchor, _ := strings.Cut(link, "#")
			target = path.Join(path.Dir(page), target)
			if strings.HasPrefix(link, "#") {
				target = page
			}
			if _, err := fs.Stat(repository, target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, link)
			} else if anchor != "" && path.Ext(target) == ".md" && !slices.Contains(anchors(readText(t, target)), anchor) {
				t.Errorf("%s links to %s, and the page has no such heading", page, link)
			}
		}
	}
}

// A reader finds every page from the index of its folder.
func TestEveryPageIsInAnIndex(t *testing.T) {
	repository := os.DirFS(root(t))
	for _, page := range pages(t, repository) {
		index := "docs/README.md"
		if path.Dir(page) == "docs/decisions" {
			index = "docs/decisions/README.md"
		}
		if !strings.HasPrefix(page, "docs/") || page == index {
			continue
		}
		linked := slices.ContainsFunc(linksOf(t, repository, index), func(link string) bool {
			return path.Join(path.Dir(index), link) == page
		})
		if !linked {
			t.Errorf("%s does not link to %s", index, page)
		}
	}
}

func TestAnchors(t *testing.T) {
	got := anchors("# The link: `Hello`\n```\n# no heading\n```\n## A [page](x.md)\n## A page\n")
	if want := []string{"the-link-hello", "a-page", "a-page-1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// pages are the Markdown files of the repository.
func pages(t *testing.T, repository fs.FS) []string {
	t.Helper()
	var names []string
	err := walkFiles(repository, func(name string) error {
		if path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return nil
	})
	if err != nil || len(names) < 30 {
		t.Fatalf("found %d pages: %v", len(names), err)
	}
	return names
}

// linksOf returns the links of a page to files of the repository.
func linksOf(t *testing.T, repository fs.FS, page string) []string {
	t.Helper()
	content, err := fs.ReadFile(repository, page)
	if err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, match := range linkPattern.FindAllStringSubmatch(blockPattern.ReplaceAllString(string(content), ""), -1) {
		if !strings.Contains(match[1], ":") {
			links = append(links, match[1])
		}
	}
	return links
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) []string {
	var names []string
	seen := map[string]int{}
	for _, match := range headingPattern.FindAllStringSubmatch(blockPattern.ReplaceAllString(page, ""), -1) {
		text := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1")
		name := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), ""), " ", "-")
		names = append(names, name)
		if times := seen[name]; times > 0 {
			names[len(names)-1] = name + "-" + strconv.Itoa(times)
		}
		seen[name]++
	}
	return names
}

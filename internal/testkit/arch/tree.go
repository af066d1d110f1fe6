package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// A tree is what the walls look at: parsed Go files and the go.mod files, by path from the root.
type tree struct {
	files   []file
	modules map[string]string
}

// A file is one Go file.
type file struct {
	path      string // from the root, with slashes
	folder    string
	lines     int
	test      bool // a _test.go file: it may do what a program may not
	generated bool // its shape is the generator's
	syntax    *ast.File
	positions *token.FileSet
}

func readTree(repository fs.FS) (tree, error) {
	read := tree{modules: map[string]string{}}
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && ignored(name):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case entry.Name() == "go.mod":
			content, err := fs.ReadFile(repository, name)
			read.modules[name] = string(content)
			return err
		case path.Ext(name) == ".go":
			parsed, err := parseFile(repository, name)
			read.files = append(read.files, parsed)
			return err
		}
		return nil
	})
	if err != nil {
		return tree{}, fmt.Errorf("read repository: %w", err)
	}
	return read, nil
}

// ignored are the folders the go command ignores too, and what others put beside our code.
func ignored(folder string) bool {
	name := path.Base(folder)
	if folder == "." {
		return false
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
		name == "testdata" || name == "node_modules" || folder == "bin"
}

func parseFile(repository fs.FS, name string) (file, error) {
	content, err := fs.ReadFile(repository, name)
	if err != nil {
		return file{}, err
	}
	positions := token.NewFileSet()
	syntax, err := parser.ParseFile(positions, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return file{}, fmt.Errorf("parse Go file: %w", err)
	}
	return file{
		path:      name,
		folder:    path.Dir(name),
		lines:     bytes.Count(content, []byte("\n")),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(syntax),
		syntax:    syntax,
		positions: positions,
	}, nil
}

// programs are the files a wall about behaviour holds for: tests and what only tests use are free.
func (t tree) programs() []file {
	var chosen []file
	for _, f := range t.files {
		if !f.test && !f.under("internal/testkit") && !f.under("test") {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// under reports whether the file lies in one of the folders or below.
func (f file) under(folders ...string) bool {
	for _, folder := range folders {
		if within(f.folder, folder) {
			return true
		}
	}
	return false
}

func within(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

func (f file) imports() map[string]*ast.ImportSpec {
	found := map[string]*ast.ImportSpec{}
	for _, spec := range f.syntax.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			found[name] = spec
		}
	}
	return found
}

func (f file) breach(wall int, at ast.Node, format string, arguments ...any) Breach {
	line := f.positions.Position(at.Pos()).Line
	return Breach{Wall: wall, Where: fmt.Sprintf("%s:%d", f.path, line), What: fmt.Sprintf(format, arguments...)}
}

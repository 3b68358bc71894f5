package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// A mutant is one change of one place. Its key has no position, so that it survives edits elsewhere.
type mutant struct {
	ID      int    `json:"id"`
	Package string `json:"package"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Func    string `json:"function"`
	Op      string `json:"operator"`
	Expr    string `json:"expression"`
	Nth     int    `json:"nth,omitempty"` // the how many-th of its function, operator and expression, if there are several

	file  *file
	edits []edit
	from  token.Pos // the range that the edits are in
	to    token.Pos
}

// The operators, in the words of the report.
const (
	opNegate   = "negate"      // c to !c
	opBoundary = "boundary"    // < to <=, and so on
	opArith    = "arithmetic"  // + to -, and so on
	opMore     = "plus 1"      // a constant, or what a step is
	opFewer    = "minus 1"     //
	opTwice    = "times 2"     // a large constant
	opRemove   = "remove"      // a statement
	opSwap     = "swap && ||"  //
	opDrop     = "drop branch" // of an if, a case or a loop
	opZero     = "zero result" // of a return, or of what defines a variable
)

func (m *mutant) key() string {
	k := m.Func + "\t" + m.Op + "\t" + m.Expr
	if m.Nth > 1 {
		k += "\t#" + strconv.Itoa(m.Nth)
	}
	return k
}

// A finder walks one file and collects its mutants.
type finder struct {
	*source
	file    *file
	parents []ast.Node
	fn      string
	found   []*mutant
}

// find returns every mutant of the package in the order of its files and lines.
func find(s *source) []*mutant {
	var all []*mutant
	for _, f := range s.Files {
		v := &finder{source: s, file: f}
		for _, d := range f.tree.Decls {
			v.fn = name(d)
			ast.Walk(v, d)
		}
		all = append(all, v.found...)
	}
	seen := map[string]int{}
	for _, m := range all {
		k := m.key()
		seen[k]++
		m.Nth = seen[k]
	}
	return all
}

func name(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return "var"
	}
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if i, ok := t.(*ast.IndexExpr); ok {
		t = i.X
	}
	return types.ExprString(t) + "." + f.Name.Name
}

func (v *finder) Visit(n ast.Node) ast.Visitor {
	if n == nil {
		v.parents = v.parents[:len(v.parents)-1]
		return nil
	}
	if d, ok := n.(*ast.GenDecl); ok && d.Tok != token.VAR {
		return nil
	}
	switch n := n.(type) {
	case ast.Expr:
		if tv := v.info.Types[n]; tv.IsType() {
			return nil
		} else if tv.Value != nil {
			v.constant(n, tv)
			return nil
		}
		v.expression(n)
	case ast.Stmt:
		v.statement(n)
	}
	v.parents = append(v.parents, n)
	return v
}

func (v *finder) parent() ast.Node {
	if len(v.parents) == 0 {
		return nil
	}
	return v.parents[len(v.parents)-1]
}

// add records a mutant whose edits, formats with one %d for its number, are before and after the node.
func (v *finder) add(op string, n ast.Node, shown, before, after string, inside ...edit) {
	pos := v.fset.Position(n.Pos())
	m := &mutant{Package: v.Path, File: pos.Filename, Line: pos.Line, Func: v.fn, Op: op, Expr: shown, file: v.file,
		from: n.Pos(), to: n.End()}
	m.edits = append(inside, edit{at: n.Pos(), text: before, node: n},
		edit{at: n.End(), text: after, node: n, closes: true})
	v.found = append(v.found, m)
}

// text is the source of n on one line, cut when it is long.
func (v *finder) text(n ast.Node) string {
	from, to := v.fset.Position(n.Pos()).Offset, v.fset.Position(n.End()).Offset
	s := strings.Join(strings.Fields(string(v.file.Text[from:to])), " ")
	if r := []rune(s); len(r) > 100 {
		s = string(r[:97]) + "..."
	}
	return s
}

// constant changes a whole constant expression by one. Names of an enumeration are not changed: conditions on them are
// negated.
func (v *finder) constant(n ast.Expr, tv types.TypeAndValue) {
	b, ok := tv.Type.Underlying().(*types.Basic)
	if !ok || v.needsConstant(n) {
		return
	}
	if r, ok := v.parent().(*ast.ReturnStmt); ok && v.besideError(r, n) {
		return
	}
	typed, ok := v.typeName(tv.Type)
	if !ok {
		return
	}
	if b.Info()&types.IsBoolean != 0 {
		// Zero result turns what is returned true to false.
		if _, returned := v.parent().(*ast.ReturnStmt); !returned || !constant.BoolVal(tv.Value) {
			v.add(opNegate, n, v.text(n), "("+runtimeName+".On(%d) != (", "))")
		}
		return
	}
	if b.Info()&types.IsInteger == 0 || v.enumerated(n) {
		return
	}
	shown := v.text(n)
	switch p := v.parent().(type) {
	case ast.Expr, *ast.AssignStmt, *ast.ReturnStmt:
		shown += " in " + v.text(p)
	}
	if i, exact := constant.Int64Val(constant.ToInt(tv.Value)); !exact || i > 1000 || i < -1000 {
		v.add(opTwice, n, shown, runtimeName+".Twice["+typed+"](%d, ", ")")
		return
	}
	v.add(opMore, n, shown, runtimeName+".More["+typed+"](%d, ", ")")
	v.add(opFewer, n, shown, runtimeName+".Fewer["+typed+"](%d, ", ")")
}

// besideError reports whether e is returned with an error, or with a false that says that there is no result, so that
// callers ignore it.
func (v *finder) besideError(r *ast.ReturnStmt, e ast.Expr) bool {
	last := r.Results[len(r.Results)-1]
	t := v.info.Types[last]
	if last != e && t.Value != nil && t.Value.Kind() == constant.Bool && !constant.BoolVal(t.Value) {
		return isZero(v.info.Types[e])
	}
	if last == e || t.Type == nil || t.Type.String() != "error" {
		return false
	}
	id, named := last.(*ast.Ident)
	return !t.IsNil() && (!named || id.Name != "err" || strings.Contains(v.condition(), "err != nil"))
}

func (v *finder) needsConstant(n ast.Expr) bool {
	switch p := v.parent().(type) {
	case *ast.KeyValueExpr:
		return p.Key == n
	case *ast.CaseClause, *ast.ArrayType, *ast.ImportSpec, *ast.Field:
		return true
	}
	return false
}

// enumerated reports whether n names a constant of an enumeration that this project declares.
func (v *finder) enumerated(n ast.Expr) bool {
	switch n := n.(type) {
	case *ast.ParenExpr:
		return v.enumerated(n.X)
	case *ast.BinaryExpr:
		return v.enumerated(n.X) && v.enumerated(n.Y)
	case *ast.SelectorExpr, *ast.Ident:
		t, ok := v.info.Types[n].Type.(*types.Named)
		return ok && t.Obj().Name() != "Duration" && t.Obj().Name() != "Time"
	}
	return false
}

// typeName writes the type as the file would, and reports whether it can.
func (v *finder) typeName(t types.Type) (string, bool) {
	if b, ok := t.(*types.Basic); ok && b.Info()&types.IsUntyped != 0 {
		t = types.Default(t)
	}
	known := true
	s := types.TypeString(t, func(p *types.Package) string {
		if p.Path() == v.Path {
			return ""
		}
		for _, i := range v.file.tree.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); path == p.Path() {
				if i.Name != nil {
					return i.Name.Name
				}
				return p.Name()
			}
		}
		known = false
		return p.Name()
	})
	return s, known
}

var boundaries = map[token.Token][2]string{
	token.LSS: {"Less", "<="}, token.LEQ: {"AtMost", "<"}, token.GTR: {"Greater", ">="}, token.GEQ: {"AtLeast", ">"},
}

var arithmetic = map[token.Token]string{
	token.ADD: "Plus", token.SUB: "Minus", token.MUL: "Times", token.QUO: "Over", token.REM: "Rem",
	token.AND: "And", token.OR: "Or", token.SHL: "Left", token.SHR: "Right",
}

func (v *finder) expression(n ast.Expr) {
	if v.leaf(n) {
		v.add(opNegate, n, v.text(n), "("+runtimeName+".On(%d) != (", "))")
	}
	b, ok := n.(*ast.BinaryExpr)
	if !ok {
		return
	}
	comma := edit{at: b.OpPos, until: b.OpPos + token.Pos(len(b.Op.String())), text: ","}
	if f, ok := boundaries[b.Op]; ok {
		v.add(opBoundary, n, v.text(n), runtimeName+"."+f[0]+"(%d, ", ")", comma)
	}
	if f, ok := arithmetic[b.Op]; ok && v.isNumeric(n) {
		if typed, ok := v.typeName(v.info.Types[n].Type); ok && (b.Op == token.SHL || b.Op == token.SHR) {
			f += "[" + typed + "]"
		}
		v.add(opArith, n, v.text(n), runtimeName+"."+f+"(%d, ", ")", comma)
	}
	if b.Op == token.LAND || b.Op == token.LOR {
		// a || b is !(!a && !b): with the mutant on, both operands and the result are inverted.
		on := ") != " + runtimeName + ".On(%d))"
		v.add(opSwap, n, v.text(n), "((", on,
			edit{at: b.X.Pos(), text: "((", node: b.X}, edit{at: b.X.End(), text: on, node: b.X, closes: true},
			edit{at: b.Y.Pos(), text: "((", node: b.Y}, edit{at: b.Y.End(), text: on, node: b.Y, closes: true})
	}
}

// leaf reports whether n is a condition without operands that are conditions. The conditions of loops are not negated:
// most loops would never end.
func (v *finder) leaf(n ast.Expr) bool {
	tv := v.info.Types[n]
	b, ok := tv.Type.(*types.Basic)
	if !ok || b.Info()&types.IsBoolean == 0 || v.inLoopCondition(n) {
		return false
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return n.Op != token.LAND && n.Op != token.LOR
	case *ast.ParenExpr:
		return false
	case *ast.UnaryExpr:
		return false
	}
	switch p := v.parent().(type) {
	case *ast.BinaryExpr:
		return p.Op == token.LAND || p.Op == token.LOR
	case *ast.UnaryExpr:
		return p.Op == token.NOT
	case *ast.IfStmt, *ast.ReturnStmt:
		return true
	case *ast.CaseClause:
		return tv.Value == nil
	case *ast.AssignStmt:
		_, call := n.(*ast.CallExpr)
		return call && len(p.Lhs) == len(p.Rhs)
	}
	return false
}

func (v *finder) inLoopCondition(n ast.Expr) bool {
	var child ast.Node = n
	for i := len(v.parents) - 1; i >= 0; i-- {
		if f, ok := v.parents[i].(*ast.ForStmt); ok {
			return f.Cond == child
		}
		if _, ok := v.parents[i].(ast.Expr); !ok {
			return false
		}
		child = v.parents[i]
	}
	return false
}

func (v *finder) isNumeric(n ast.Expr) bool {
	b, ok := v.info.Types[n].Type.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsInteger|types.IsFloat) != 0
}

package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

func (v *finder) statement(n ast.Stmt) {
	switch n := n.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.BranchStmt:
		v.remove(n)
	case *ast.AssignStmt:
		v.assign(n)
	case *ast.ReturnStmt:
		v.remove(n)
		v.results(n)
	case *ast.IfStmt:
		v.drop(n.Cond)
	case *ast.ForStmt, *ast.RangeStmt:
		if !v.ends(n) && !v.labelled() {
			v.guard(opDrop, n, header(v.text(n)))
		}
	case *ast.CaseClause:
		v.clause(n)
	}
}

func (v *finder) labelled() bool {
	_, ok := v.parent().(*ast.LabeledStmt)
	return ok
}

// guard runs the statement only if the mutant is off.
func (v *finder) guard(op string, n ast.Node, shown string) {
	v.add(op, n, shown, "if !"+runtimeName+".On(%d) { ", " }")
}

// remove removes a statement of a block, except one that ends a function with results.
func (v *finder) remove(n ast.Stmt) {
	if b, ok := n.(*ast.BranchStmt); ok && b.Tok == token.FALLTHROUGH {
		return
	}
	switch p := v.parent().(type) {
	case *ast.BlockStmt, *ast.CaseClause:
	case *ast.CommClause:
		if p.Comm == n {
			return
		}
	default:
		return
	}
	shown := v.text(n)
	switch n := n.(type) {
	case *ast.ExprStmt:
		if isPanic(n.X) && v.ends(n) {
			return
		}
	case *ast.ReturnStmt, *ast.BranchStmt:
		if v.ends(n) {
			return
		}
		if c := v.condition(); c != "" {
			shown += " if " + c
		}
	}
	v.guard(opRemove, n, shown)
}

func isPanic(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	return ok && id.Name == "panic"
}

// condition is that of the innermost if or case around the statement.
func (v *finder) condition() string {
	for i := len(v.parents) - 1; i >= 0; i-- {
		switch p := v.parents[i].(type) {
		case *ast.IfStmt:
			return v.text(p.Cond)
		case *ast.CaseClause:
			if len(p.List) > 0 {
				return v.text(p.List[0])
			}
			return "default"
		case *ast.BlockStmt:
		default:
			return ""
		}
	}
	return ""
}

// ends reports whether n is, or is in, the statement that ends a function with results, or ends a function as its last
// statement.
func (v *finder) ends(n ast.Node) bool {
	for i := len(v.parents) - 1; i >= 0; i-- {
		var t *ast.FuncType
		var body *ast.BlockStmt
		switch p := v.parents[i].(type) {
		case *ast.FuncDecl:
			t, body = p.Type, p.Body
		case *ast.FuncLit:
			t, body = p.Type, p.Body
		default:
			continue
		}
		last := body.List[len(body.List)-1]
		inside := last.Pos() <= n.Pos() && n.End() <= last.End()
		return inside && (t.Results.NumFields() > 0 || last == n)
	}
	return false
}

func (v *finder) assign(n *ast.AssignStmt) {
	if n.Tok != token.DEFINE {
		if !allBlank(n.Lhs) {
			v.remove(n)
		}
		if n.Tok == token.ADD_ASSIGN && v.isNumeric(n.Lhs[0]) {
			if typed, ok := v.typeName(v.info.Types[n.Lhs[0]].Type); ok {
				v.add(opArith, n.Rhs[0], v.text(n), runtimeName+".Negative["+typed+"](%d, ", ")")
			}
		}
		return
	}
	if len(n.Lhs) != len(n.Rhs) {
		return
	}
	for _, e := range n.Rhs {
		if _, ok := e.(*ast.CallExpr); ok && v.info.Types[e].Value == nil && !v.isBool(e) && !v.isMake(e) {
			v.add(opZero, e, v.text(n), runtimeName+".Zero(%d, ", ")")
		}
	}
}

func allBlank(list []ast.Expr) bool {
	for _, e := range list {
		if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}

func (v *finder) isBool(e ast.Expr) bool {
	b, ok := v.info.Types[e].Type.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

func (v *finder) isMake(e ast.Expr) bool {
	id, ok := e.(*ast.CallExpr).Fun.(*ast.Ident)
	return ok && (id.Name == "make" || id.Name == "new")
}

// results zeroes each result of a return. A condition is negated instead, as an expression.
func (v *finder) results(n *ast.ReturnStmt) {
	var list []ast.Expr
	for i := len(v.parents) - 1; i >= 0 && list == nil; i-- {
		var t *ast.FuncType
		switch p := v.parents[i].(type) {
		case *ast.FuncDecl:
			t = p.Type
		case *ast.FuncLit:
			t = p.Type
		default:
			continue
		}
		if t.Results == nil {
			return
		}
		for _, f := range t.Results.List {
			for range max(1, len(f.Names)) {
				list = append(list, f.Type)
			}
		}
	}
	if len(list) != len(n.Results) {
		return
	}
	for i, e := range n.Results {
		tv := v.info.Types[e]
		if tv.IsNil() || isZero(tv) || tv.Value == nil && v.isBool(e) || v.besideError(n, e) {
			continue
		}
		shown := v.text(n)
		if c := v.condition(); c != "" {
			shown += " if " + c
		}
		if len(list) > 1 {
			shown += " (" + v.text(e) + ")"
		}
		v.add(opZero, e, shown, runtimeName+".Zero["+v.whole(list[i])+"](%d, ", ")")
	}
}

// whole is the source of n unchanged.
func (v *finder) whole(n ast.Node) string {
	return string(v.file.Text[v.fset.Position(n.Pos()).Offset:v.fset.Position(n.End()).Offset])
}

func isZero(tv types.TypeAndValue) bool {
	if tv.Value == nil {
		return false
	}
	switch tv.Value.ExactString() {
	case "0", "false", `""`:
		return true
	}
	return false
}

// drop makes the condition of a branch false.
func (v *finder) drop(cond ast.Expr) {
	if v.info.Types[cond].Value == nil {
		v.add(opDrop, cond, "if "+v.text(cond), "((", ") && !"+runtimeName+".On(%d))")
	}
}

// clause drops the conditions of a switch without a tag, and empties the clauses of one with a tag.
func (v *finder) clause(n *ast.CaseClause) {
	if s, ok := v.parents[len(v.parents)-2].(*ast.SwitchStmt); ok && s.Tag == nil {
		for _, e := range n.List {
			v.drop(e)
		}
		return
	}
	if len(n.Body) == 0 {
		return
	}
	last := n.Body[len(n.Body)-1]
	if b, ok := last.(*ast.BranchStmt); ok && b.Tok == token.FALLTHROUGH {
		return
	}
	if _, ok := last.(*ast.ReturnStmt); ok && v.ends(last) {
		return
	}
	shown := "default"
	if len(n.List) > 0 {
		shown = "case " + v.text(n.List[0])
		if len(n.List) > 1 {
			shown += ", ..."
		}
	}
	body := &ast.BlockStmt{Lbrace: n.Body[0].Pos(), Rbrace: last.End() - 1}
	v.guard(opDrop, body, shown)
}

// header is the text of a statement up to its block.
func header(text string) string {
	before, _, _ := strings.Cut(text, "{")
	return strings.TrimSpace(before)
}

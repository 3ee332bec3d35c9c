//! Formulas over a few elements of each sort, as bit vectors: quantifiers are written out.

use std::{collections::BTreeMap, rc::Rc, slice::from_ref};

use crate::{
    expression::{Bindings, Expr, atom, call, list},
    solver::Solver,
    system::{Clocks, EXACT, Function, System, typed},
};

/// The sort of the kinds of steps.
pub(crate) const STEP: &str = "Step";

/// How many elements of each sort there are. One of the keys is none.
const SIZES: [(&str, u64); 4] = [("Session", 3), ("Attempt", 3), ("Key", 4), ("Keepalive", 1)];

/// The translation of a system for z3, and the solver that receives it.
pub(crate) struct Bits<'a> {
    pub(crate) system: &'a System,
    pub(crate) solver: Solver,
    /// The bits of numbers and times.
    width: u64,
    /// The names of values that have been looked up.
    found: BTreeMap<String, Expr>,
}

impl<'a> Bits<'a> {
    pub(crate) fn new(system: &'a System, solver: Solver, clocks: Clocks) -> Self {
        // Products of times and speeds need more.
        let width = if clocks == EXACT { 4 } else { 10 };
        Self { system, solver, width, found: BTreeMap::new() }
    }

    /// Returns the number of values of a sort; `None` for numbers and times.
    pub(crate) fn size(&self, sort: &str) -> Option<u64> {
        let of_step = (sort == STEP).then_some(self.system.steps.len() as u64);
        let of_enum = self.system.enums.get(sort).map(|values| values.len() as u64);
        let of_sort = SIZES.iter().find(|(name, _)| *name == sort).map(|(_, size)| *size);
        of_step.or(of_enum).or(of_sort)
    }

    fn width(&self, sort: &str) -> u64 {
        self.size(sort).map_or(self.width, |size| u64::from(size.ilog2() + 1))
    }

    /// Returns the value with this index.
    pub(crate) fn literal(&self, sort: &str, index: u64) -> Expr {
        bits(index, self.width(sort))
    }

    /// Returns all values of a sort.
    pub(crate) fn values(&self, sort: &str) -> Vec<Expr> {
        (0..self.size(sort).unwrap_or(0)).map(|index| self.literal(sort, index)).collect()
    }

    /// Returns all arguments of a function.
    pub(crate) fn points(&self, domain: &[Rc<str>]) -> Vec<Vec<Expr>> {
        domain.iter().fold(vec![Vec::new()], |points, sort| {
            let values = self.values(sort);
            let longer = |point: Vec<Expr>| {
                values
                    .iter()
                    .map(move |value| [&*point, from_ref(value)].concat())
                    .collect::<Vec<_>>()
            };
            points.into_iter().flat_map(longer).collect()
        })
    }

    /// Declares a name with a value of this sort.
    pub(crate) fn declare(&mut self, name: &Expr, sort: &str) -> Result<(), String> {
        let of = match sort {
            "Bool" => atom("Bool"),
            _ => list(vec![atom("_"), atom("BitVec"), atom(self.width(sort).to_string())]),
        };
        self.solver.command(&call("declare-fun", [name.clone(), list(Vec::new()), of]))?;
        match self.size(sort) {
            Some(size) => {
                let last = self.literal(sort, size - 1);
                self.solver.assert(&call("bvule", [name.clone(), last]))
            }
            None => Ok(()),
        }
    }

    /// Declares the values of a function at a moment.
    pub(crate) fn declare_all(&mut self, function: &Function, at: &str) -> Result<(), String> {
        for point in self.points(&function.domain) {
            self.declare(&value_name(&function.name, at, &point), &function.range)?;
        }
        Ok(())
    }

    /// Translates a formula or term at this moment.
    pub(crate) fn term(
        &mut self,
        expr: &Expr,
        at: usize,
        known: &Bindings,
    ) -> Result<Expr, String> {
        match expr {
            Expr::Atom(name) => self.name(name, at, known),
            Expr::Text(_) => Err("a formula contains no text".into()),
            Expr::List(items) => {
                let (head, args) = expr.form()?;
                match (head, &**items) {
                    ("forall" | "exists", [_, variables, body]) => {
                        self.each(head, variables, body, at, known)
                    }
                    ("next", [_, value]) => self.next(value, at, known),
                    _ => {
                        let args = args.iter().map(|arg| self.term(arg, at, known));
                        let args = args.collect::<Result<Vec<_>, _>>()?;
                        self.apply(head, args, at)
                    }
                }
            }
        }
    }

    fn name(&mut self, name: &Rc<str>, at: usize, known: &Bindings) -> Result<Expr, String> {
        if let Some(value) = known.get(name) {
            return Ok(value.clone());
        }
        if let Ok(number) = name.parse() {
            return Ok(bits(number, self.width));
        }
        for (sort, values) in &self.system.enums {
            if let Some(index) = values.iter().position(|value| value == name) {
                return Ok(self.literal(sort, index as u64));
            }
        }
        match &**name {
            "true" | "false" => Ok(atom(name)),
            _ => self.look_up(name, Vec::new(), at),
        }
    }

    fn each(
        &mut self,
        head: &str,
        variables: &Expr,
        body: &Expr,
        at: usize,
        known: &Bindings,
    ) -> Result<Expr, String> {
        let (names, sorts): (Vec<_>, Vec<_>) = typed(variables.list()?)?.into_iter().unzip();
        let mut all = Vec::new();
        for point in self.points(&sorts) {
            let mut known = known.clone();
            known.extend(names.iter().cloned().zip(point));
            all.push(self.term(body, at, &known)?);
        }
        Ok(if head == "forall" { and(all) } else { or(all) })
    }

    /// Translates a value after the step. Its arguments are those before the step.
    fn next(&mut self, value: &Expr, at: usize, known: &Bindings) -> Result<Expr, String> {
        let Expr::List(_) = value else { return self.name(value.atom()?, at + 1, known) };
        let (name, args) = value.form()?;
        let args = args.iter().map(|arg| self.term(arg, at, known)).collect::<Result<_, _>>()?;
        self.look_up(name, args, at + 1)
    }

    fn apply(&mut self, head: &str, args: Vec<Expr>, at: usize) -> Result<Expr, String> {
        match (head, &*args) {
            ("and", _) => Ok(and(args)),
            ("or", _) => Ok(or(args)),
            ("not", [inner]) => Ok(not(inner.clone())),
            ("=>", [when, then]) => Ok(or(vec![not(when.clone()), then.clone()])),
            ("=", [left, right]) => Ok(equal(left, right)),
            ("ite", [when, then, other]) => Ok(choose(when, then, other)),
            ("<", _) => Ok(call("bvult", args)),
            ("<=", _) => Ok(call("bvule", args)),
            ("+", _) => Ok(call("bvadd", args)),
            ("*", _) => Ok(call("bvmul", args)),
            _ => self.look_up(head, args, at),
        }
    }

    /// Returns the value of a function at these arguments, which may be unknown.
    pub(crate) fn look_up(
        &mut self,
        name: &str,
        args: Vec<Expr>,
        at: usize,
    ) -> Result<Expr, String> {
        let system = self.system;
        let (function, varies) =
            system.function(name).ok_or_else(|| format!("unknown name {name}"))?;
        let at = if varies { at.to_string() } else { String::new() };
        if args.iter().all(is_literal) {
            return Ok(value_name(name, &at, &args));
        }
        let key = format!("{name}@{at}{args:?}");
        if let Some(found) = self.found.get(&key) {
            return Ok(found.clone());
        }
        let mut points = self.points(&function.domain);
        let last = points.pop().ok_or("a sort without elements")?;
        let mut value = value_name(name, &at, &last);
        for point in points {
            let here = and(args.iter().zip(&point).map(|(arg, value)| equal(arg, value)).collect());
            value = choose(&here, &value_name(name, &at, &point), &value);
        }
        let found = atom(format!("v{}", self.found.len()));
        self.declare(&found, &function.range)?;
        self.solver.assert(&equal(&found, &value))?;
        self.found.insert(key, found.clone());
        Ok(found)
    }
}

/// Returns the name of the value of a function at a moment.
pub(crate) fn value_name(function: &str, at: &str, point: &[Expr]) -> Expr {
    let point: Vec<_> =
        point.iter().map(|value| format!(".{}", index(value).unwrap_or(0))).collect();
    atom(format!("{function}@{at}{}", point.concat()))
}

fn bits(index: u64, width: u64) -> Expr {
    list(vec![atom("_"), atom(format!("bv{index}")), atom(width.to_string())])
}

/// Returns the index of a value that is known.
fn index(value: &Expr) -> Option<u64> {
    match value.list() {
        Ok([_, Expr::Atom(bits), _]) => bits.strip_prefix("bv")?.parse().ok(),
        _ => None,
    }
}

fn is_literal(value: &Expr) -> bool {
    index(value).is_some()
}

pub(crate) fn and(all: Vec<Expr>) -> Expr {
    combine("and", all, "false", "true")
}

pub(crate) fn or(all: Vec<Expr>) -> Expr {
    combine("or", all, "true", "false")
}

/// Joins formulas. `decides`: one that decides alone; `adds_nothing`: one that does not matter.
fn combine(head: &str, all: Vec<Expr>, decides: &str, adds_nothing: &str) -> Expr {
    if all.iter().any(|one| one.is(decides)) {
        return atom(decides);
    }
    let mut rest: Vec<_> = all.into_iter().filter(|one| !one.is(adds_nothing)).collect();
    match rest.len() {
        0 => atom(adds_nothing),
        1 => rest.remove(0),
        _ => call(head, rest),
    }
}

pub(crate) fn not(inner: Expr) -> Expr {
    match &inner {
        Expr::Atom(name) if &**name == "true" => atom("false"),
        Expr::Atom(name) if &**name == "false" => atom("true"),
        _ => call("not", [inner]),
    }
}

pub(crate) fn equal(left: &Expr, right: &Expr) -> Expr {
    if left == right {
        atom("true")
    } else if is_literal(left) && is_literal(right) {
        atom("false")
    } else {
        call("=", [left.clone(), right.clone()])
    }
}

pub(crate) fn choose(when: &Expr, then: &Expr, other: &Expr) -> Expr {
    if when.is("true") || then == other {
        then.clone()
    } else if when.is("false") {
        other.clone()
    } else {
        call("ite", [when.clone(), then.clone(), other.clone()])
    }
}

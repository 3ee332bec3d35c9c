//! The proof: the invariant holds at first, each step preserves it, and the properties follow.

use std::{collections::BTreeMap, rc::Rc};

use crate::{
    expression::{Bindings, Expr, atom, call, list},
    solver::{LIMIT, Solver, Verdict},
    system::{Sentence, Step, System, Typed, Update},
};

/// A sentence that is not proved.
pub(crate) struct Open {
    pub(crate) name: Rc<str>,
    /// The verdict about its negation.
    pub(crate) verdict: Verdict,
}

/// A system in the solver, with the state before a step.
pub(crate) struct Induction<'a> {
    system: &'a System,
    solver: Solver,
}

impl<'a> Induction<'a> {
    pub(crate) fn new(system: &'a System) -> Result<Self, String> {
        let mut solver = Solver::new()?;
        solver.limit(LIMIT)?;
        for sort in &system.sorts {
            solver.command(&call("declare-sort", [atom(sort), atom("0")]))?;
        }
        for (name, values) in &system.enums {
            let values = values.iter().map(|value| list(vec![atom(value)])).collect();
            let (names, all) = (vec![list(vec![atom(name), atom("0")])], vec![list(values)]);
            solver.command(&call("declare-datatypes", [list(names), list(all)]))?;
        }
        for function in system.constants.iter().chain(&system.variables) {
            declare(&mut solver, &function.name, &function.domain, &function.range)?;
        }
        for axiom in &system.axioms {
            solver.assert(axiom)?;
        }
        Ok(Self { system, solver })
    }

    /// Returns the sentences that may be false at first.
    pub(crate) fn initiation(&mut self) -> Result<Vec<Open>, String> {
        let Self { system, solver } = self;
        solver.apart(|solver| {
            system.initially.iter().try_for_each(|formula| solver.assert(formula))?;
            open(solver, &system.invariants, &Bindings::new())
        })
    }

    /// Returns the properties that may be false although the invariant holds.
    pub(crate) fn conclusion(&mut self) -> Result<Vec<Open>, String> {
        let Self { system, solver } = self;
        solver.apart(|solver| {
            assume(solver, system)?;
            open(solver, &system.properties, &Bindings::new())
        })
    }

    /// Returns those sentences that may be false after this step from a state with the invariant.
    pub(crate) fn consecution(
        &mut self,
        step: &Step,
        sentences: &[Sentence],
    ) -> Result<Vec<Open>, String> {
        let Self { system, solver } = self;
        solver.apart(|solver| {
            assume(solver, system)?;
            let next = take(solver, system, step)?;
            open(solver, sentences, &next)
        })
    }

    /// Returns the verdict about a state with the invariant in which this step is possible.
    pub(crate) fn possible(&mut self, step: &Step) -> Result<Verdict, String> {
        let Self { system, solver } = self;
        solver.apart(|solver| {
            assume(solver, system)?;
            take(solver, system, step)?;
            solver.check()
        })
    }
}

/// Returns the sentences that are not proved, with the renamed functions.
fn open(
    solver: &mut Solver,
    sentences: &[Sentence],
    renamed: &Bindings,
) -> Result<Vec<Open>, String> {
    let mut open = Vec::new();
    for sentence in sentences {
        let formula = call("not", [sentence.formula.replace(renamed)]);
        let verdict = solver.apart(|solver| {
            solver.assert(&formula)?;
            solver.check()
        })?;
        if verdict != Verdict::Impossible {
            open.push(Open { name: Rc::clone(&sentence.name), verdict });
        }
    }
    Ok(open)
}

fn assume(solver: &mut Solver, system: &System) -> Result<(), String> {
    system.invariants.iter().try_for_each(|invariant| solver.assert(&invariant.formula))
}

/// Returns the name of a function's next value.
fn next(name: &str) -> Rc<str> {
    format!("{name}!next").into()
}

fn sort(name: &Rc<str>) -> Expr {
    match &**name {
        "Number" => atom("Int"),
        "Time" => atom("Real"),
        _ => atom(name),
    }
}

fn declare(
    solver: &mut Solver,
    name: &Rc<str>,
    domain: &[Rc<str>],
    range: &Rc<str>,
) -> Result<(), String> {
    let domain = list(domain.iter().map(sort).collect());
    solver.command(&call("declare-fun", [atom(name), domain, sort(range)]))
}

/// Adds a step from the current state. Returns the names of the changed functions with their new
/// names.
fn take(solver: &mut Solver, system: &System, step: &Step) -> Result<Bindings, String> {
    for (name, of) in &step.params {
        declare(solver, name, &[], of)?;
    }
    let mut changes = BTreeMap::<_, Vec<&Update>>::new();
    for update in &step.updates {
        changes.entry(Rc::clone(&update.target)).or_default().push(update);
    }
    let mut renamed = Bindings::new();
    for name in &step.chosen {
        let (function, _) = system.function(name).ok_or_else(|| unknown(name))?;
        declare(solver, &next(name), &function.domain, &function.range)?;
        renamed.insert(Rc::clone(name), atom(next(name)));
    }
    for (name, updates) in changes {
        let (function, _) = system.function(&name).ok_or_else(|| unknown(&name))?;
        let params: Vec<Typed> =
            (0..).map(|i| format!("x{i}").into()).zip(function.domain.clone()).collect();
        let here: Vec<_> = params.iter().map(|(name, _)| atom(name)).collect();
        let before = if here.is_empty() { atom(&name) } else { call(&name, here.clone()) };
        let value = updates.iter().fold(before, |before, update| changed(update, &here, before));
        let typed = params.iter().map(|(name, of)| list(vec![atom(name), sort(of)])).collect();
        let new = next(&name);
        solver.command(&call(
            "define-fun",
            [atom(&new), list(typed), sort(&function.range), value],
        ))?;
        renamed.insert(name, atom(new));
    }
    for condition in &step.conditions {
        solver.assert(&after(condition, &renamed))?;
    }
    Ok(renamed)
}

fn unknown(name: &str) -> String {
    format!("unknown function {name}")
}

/// Returns the value of the updated function here.
fn changed(update: &Update, here: &[Expr], before: Expr) -> Expr {
    let each: Vec<_> = update.each.iter().map(|(name, _)| atom(name)).collect();
    if update.args.is_empty() {
        return update.value.clone();
    }
    if update.args == each {
        let names = update.each.iter().map(|(name, _)| Rc::clone(name));
        let bindings = names.zip(here.iter().cloned()).collect();
        return update.value.replace(&bindings);
    }
    let same = here.iter().zip(&update.args).map(|(x, arg)| call("=", [x.clone(), arg.clone()]));
    call("ite", [call("and", same), update.value.clone(), before])
}

/// Replaces `(next VALUE)` by the value after the step.
fn after(condition: &Expr, renamed: &Bindings) -> Expr {
    match condition {
        Expr::List(items) => match &**items {
            [head, Expr::Atom(name)] if head.is("next") => {
                renamed.get(name).cloned().unwrap_or_else(|| atom(name))
            }
            [head, Expr::List(inner)] if head.is("next") => {
                let args = inner.iter().skip(1).cloned();
                let function = inner[0].replace(renamed);
                list([function].into_iter().chain(args).collect())
            }
            items => list(items.iter().map(|item| after(item, renamed)).collect()),
        },
        _ => condition.clone(),
    }
}

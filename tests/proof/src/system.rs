//! The transition system, as written in `queue/`, with definitions and rules expanded.

use std::{collections::BTreeMap, rc::Rc};

use crate::{
    expand::Expander,
    expression::{Bindings, Expr},
};

const SOURCES: [&str; 5] = [
    include_str!("../queue/state.lisp"),
    include_str!("../queue/steps.lisp"),
    include_str!("../queue/properties.lisp"),
    include_str!("../queue/invariant.lisp"),
    include_str!("../queue/examples.lisp"),
];

/// How fast the clocks of clients are: at least `slow` while the store's clock advances by `fast`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clocks {
    pub(crate) name: &'static str,
    pub(crate) slow: u32,
    pub(crate) fast: u32,
}

pub(crate) const EXACT: Clocks = Clocks { name: "exact clocks", slow: 1, fast: 1 };

/// A tenth slower, as in `Timing::certain` of the library.
pub(crate) const DRIFT: Clocks = Clocks { name: "clocks that drift", slow: 9, fast: 10 };

/// A name with its sort.
pub(crate) type Typed = (Rc<str>, Rc<str>);

/// A function from sorts to a sort, whose values are the state.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: Rc<str>,
    pub(crate) domain: Vec<Rc<str>>,
    pub(crate) range: Rc<str>,
}

/// A formula with its name, and its meaning in one sentence.
#[derive(Clone, Debug)]
pub(crate) struct Sentence {
    pub(crate) name: Rc<str>,
    pub(crate) text: Rc<str>,
    pub(crate) formula: Expr,
}

/// What happens without a rule.
#[derive(Clone, Debug)]
pub(crate) struct Break {
    pub(crate) rule: Rc<str>,
    /// The step that does not preserve a sentence of the invariant.
    pub(crate) step: Rc<str>,
    pub(crate) invariant: Rc<str>,
    /// The property that breaks, and after which steps.
    pub(crate) property: Rc<str>,
    pub(crate) history: Vec<Rc<str>>,
}

/// A change of one function: `target(args) = value`, for all values of `each`.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) each: Vec<Typed>,
    pub(crate) target: Rc<str>,
    pub(crate) args: Vec<Expr>,
    pub(crate) value: Expr,
}

/// A transition.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) name: Rc<str>,
    pub(crate) text: Rc<str>,
    pub(crate) params: Vec<Typed>,
    /// The functions whose next values are restricted only by the conditions.
    pub(crate) chosen: Vec<Rc<str>>,
    pub(crate) conditions: Vec<Expr>,
    pub(crate) updates: Vec<Update>,
}

#[derive(Debug, Default)]
pub(crate) struct System {
    /// Names and sentences.
    pub(crate) rules: Vec<(Rc<str>, Rc<str>)>,
    pub(crate) sorts: Vec<Rc<str>>,
    pub(crate) enums: BTreeMap<Rc<str>, Vec<Rc<str>>>,
    pub(crate) constants: Vec<Function>,
    pub(crate) variables: Vec<Function>,
    pub(crate) axioms: Vec<Expr>,
    pub(crate) initially: Vec<Expr>,
    pub(crate) steps: Vec<Step>,
    pub(crate) invariants: Vec<Sentence>,
    pub(crate) properties: Vec<Sentence>,
    pub(crate) situations: Vec<Sentence>,
    pub(crate) breaks: Vec<Break>,
    /// The situations, with the steps after which they are reached.
    pub(crate) reached: Vec<(Rc<str>, Vec<Rc<str>>)>,
}

impl System {
    /// Reads the system, without one rule if a name is given.
    pub(crate) fn new(clocks: Clocks, without: Option<&str>) -> Result<Self, String> {
        let mut system = Self::default();
        let mut expander = Expander::new(clocks, without);
        for form in Expr::parse(&SOURCES.concat())? {
            system.add(&mut expander, &form).map_err(|error| format!("{error}, in {form}"))?;
        }
        match without {
            Some(name) if !system.rules.iter().any(|(rule, _)| &**rule == name) => {
                Err(format!("unknown rule {name}; see --list"))
            }
            _ => Ok(system),
        }
    }

    fn add(&mut self, expander: &mut Expander, form: &Expr) -> Result<(), String> {
        let (head, rest) = form.form()?;
        match (head, rest) {
            ("rules", rules) => {
                for rule in rules {
                    let (name, text) = rule.form()?;
                    self.rules.push((name.into(), Rc::clone(only(text)?.text()?)));
                }
            }
            ("sorts", names) => self.sorts = atoms(names)?,
            ("enum", [name, values @ ..]) => {
                self.enums.insert(Rc::clone(name.atom()?), atoms(values)?);
            }
            ("constant", rest) => self.constants.push(function(rest)?),
            ("variable", rest) => self.variables.push(function(rest)?),
            ("define", [signature, body]) => expander.define(signature, vec![body.clone()])?,
            ("effect", [signature, body @ ..]) => expander.define(signature, body.to_vec())?,
            ("axiom", [formula]) => self.axioms.push(expander.formula(formula)?),
            ("initially", formulas) => self.initially = expander.formulas(formulas)?,
            ("step", rest) => self.steps.push(step(expander, rest)?),
            ("invariant", rest) => self.invariants.push(sentence(expander, rest)?),
            ("property", rest) => self.properties.push(sentence(expander, rest)?),
            ("situation", rest) => self.situations.push(sentence(expander, rest)?),
            ("breaks", rest) => self.breaks.push(breaks(rest)?),
            ("reached", [situation, steps @ ..]) => {
                self.reached.push((Rc::clone(situation.atom()?), atoms(steps)?));
            }
            _ => return Err(format!("unknown form {head}")),
        }
        Ok(())
    }

    /// Returns the step with this name.
    pub(crate) fn step(&self, name: &str) -> Result<&Step, String> {
        let found = self.steps.iter().find(|step| &*step.name == name);
        found.ok_or_else(|| format!("unknown step {name}"))
    }

    /// Returns the function with this name, and `true` if it belongs to the state.
    pub(crate) fn function(&self, name: &str) -> Option<(&Function, bool)> {
        let find = |all: &'_ [Function]| all.iter().position(|function| &*function.name == name);
        match (find(&self.variables), find(&self.constants)) {
            (Some(at), _) => Some((&self.variables[at], true)),
            (_, Some(at)) => Some((&self.constants[at], false)),
            _ => None,
        }
    }
}

/// Returns the sentence with this name.
pub(crate) fn named(sentences: &[Sentence], name: &str) -> Result<Sentence, String> {
    let found = sentences.iter().find(|sentence| &*sentence.name == name);
    found.cloned().ok_or_else(|| format!("unknown sentence {name}"))
}

fn only(items: &[Expr]) -> Result<&Expr, String> {
    match items {
        [item] => Ok(item),
        _ => Err(format!("one item is expected, not {items:?}")),
    }
}

fn atoms(items: &[Expr]) -> Result<Vec<Rc<str>>, String> {
    items.iter().map(|item| item.atom().cloned()).collect()
}

/// Reads `((NAME SORT)...)`.
pub(crate) fn typed(items: &[Expr]) -> Result<Vec<Typed>, String> {
    items
        .iter()
        .map(|item| match item.list()? {
            [name, sort] => Ok((Rc::clone(name.atom()?), Rc::clone(sort.atom()?))),
            _ => Err(format!("a name with its sort is expected, not {item}")),
        })
        .collect()
}

fn function(rest: &[Expr]) -> Result<Function, String> {
    let [name, domain, range, text] = rest else { return Err("a function is malformed".into()) };
    text.text()?;
    let (name, range) = (Rc::clone(name.atom()?), Rc::clone(range.atom()?));
    Ok(Function { name, domain: atoms(domain.list()?)?, range })
}

fn breaks(rest: &[Expr]) -> Result<Break, String> {
    let [rule, fails, property, history @ ..] = rest else {
        return Err("a part is missing".into());
    };
    let [step, invariant] = fails.list()? else { return Err(format!("two names are not {fails}")) };
    let name = |expr: &Expr| expr.atom().cloned();
    let (rule, property, history) = (name(rule)?, name(property)?, atoms(history)?);
    Ok(Break { rule, step: name(step)?, invariant: name(invariant)?, property, history })
}

fn sentence(expander: &mut Expander, rest: &[Expr]) -> Result<Sentence, String> {
    let [name, text, formula] = rest else { return Err("a sentence is malformed".into()) };
    let (name, text) = (Rc::clone(name.atom()?), Rc::clone(text.text()?));
    Ok(Sentence { name, text, formula: expander.formula(formula)? })
}

fn step(expander: &mut Expander, rest: &[Expr]) -> Result<Step, String> {
    let [name, params, text, parts @ ..] = rest else { return Err("a step is malformed".into()) };
    let mut step = Step {
        name: Rc::clone(name.atom()?),
        text: Rc::clone(text.text()?),
        params: typed(params.list()?)?,
        chosen: Vec::new(),
        conditions: Vec::new(),
        updates: Vec::new(),
    };
    for part in parts {
        match part.form()? {
            ("choose", names) => step.chosen = atoms(names)?,
            ("when", conditions) => step.conditions = expander.formulas(conditions)?,
            ("then", effects) => {
                for effect in expander.effects(effects)? {
                    step.updates.push(update(&effect)?);
                }
            }
            (other, _) => return Err(format!("unknown part {other}")),
        }
    }
    Ok(step)
}

fn update(effect: &Expr) -> Result<Update, String> {
    match effect.form()? {
        ("each", [all @ .., inner]) => Ok(Update { each: typed(all)?, ..update(inner)? }),
        ("set", [target, value]) => {
            let (target, args) = match target {
                Expr::Atom(name) => (Rc::clone(name), Vec::new()),
                _ => {
                    let (name, args) = target.form()?;
                    (name.into(), args.to_vec())
                }
            };
            Ok(Update { each: Vec::new(), target, args, value: value.clone() })
        }
        _ => Err(format!("unknown effect {effect}")),
    }
}

/// Returns bindings of parameters to arguments.
pub(crate) fn bind(params: &[Typed], args: &[Expr]) -> Result<Bindings, String> {
    if params.len() != args.len() {
        return Err(format!("{} arguments are expected, not {args:?}", params.len()));
    }
    Ok(params.iter().map(|(name, _)| Rc::clone(name)).zip(args.iter().cloned()).collect())
}

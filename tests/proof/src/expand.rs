//! Replaces definitions, rules and the speeds of clocks by what they mean.

use std::{collections::BTreeMap, rc::Rc};

use crate::{
    expression::{Bindings, Expr, atom, list},
    system::{Clocks, Typed, bind, typed},
};

#[derive(Debug)]
pub(crate) struct Expander {
    without: Option<Rc<str>>,
    speeds: Bindings,
    definitions: BTreeMap<Rc<str>, Definition>,
    /// How many variables of quantifiers have been renamed.
    renamed: usize,
}

#[derive(Clone, Debug)]
struct Definition {
    params: Vec<Typed>,
    body: Vec<Expr>,
}

impl Expander {
    pub(crate) fn new(clocks: Clocks, without: Option<&str>) -> Self {
        let speed = |name: &str, speed: u32| (name.into(), atom(speed.to_string()));
        let speeds = [speed("slow", clocks.slow), speed("fast", clocks.fast)].into();
        let without = without.map(Into::into);
        Self { without, speeds, definitions: BTreeMap::new(), renamed: 0 }
    }

    /// Adds a definition: `(NAME (PARAM SORT)...)` means the body.
    pub(crate) fn define(&mut self, signature: &Expr, body: Vec<Expr>) -> Result<(), String> {
        let (name, params) = signature.form()?;
        let definition = Definition { params: typed(params)?, body };
        match self.definitions.insert(name.into(), definition) {
            None => Ok(()),
            Some(_) => Err(format!("{name} is defined twice")),
        }
    }

    pub(crate) fn formulas(&mut self, formulas: &[Expr]) -> Result<Vec<Expr>, String> {
        formulas.iter().map(|formula| self.formula(formula)).collect()
    }

    pub(crate) fn formula(&mut self, formula: &Expr) -> Result<Expr, String> {
        let Expr::List(items) = formula else { return Ok(formula.replace(&self.speeds)) };
        match &**items {
            [head, rule, inner] if head.is("rule") => {
                if self.has(rule)? {
                    self.formula(inner)
                } else {
                    Ok(atom("true"))
                }
            }
            [head, rule, with, without] if head.is("with-rule") => {
                if self.has(rule)? {
                    self.formula(with)
                } else {
                    self.formula(without)
                }
            }
            [head, variables, body] if head.is("forall") || head.is("exists") => {
                self.quantified(head, variables, body)
            }
            [Expr::Atom(name), args @ ..] if self.definitions.contains_key(name) => {
                let Definition { params, body } = self.definitions[name].clone();
                let args = self.formulas(args)?;
                // First renames the variables of quantifiers, so that none captures an argument.
                let mut body = self.formulas(&body)?;
                let bindings = bind(&params, &args)?;
                match (body.pop(), body.is_empty()) {
                    (Some(body), true) => Ok(body.replace(&bindings)),
                    _ => Err(format!("{name} is no formula")),
                }
            }
            items => Ok(list(self.formulas(items)?)),
        }
    }

    fn quantified(&mut self, head: &Expr, all: &Expr, body: &Expr) -> Result<Expr, String> {
        let (mut renamed, mut variables) = (Bindings::new(), Vec::new());
        for (name, sort) in typed(all.list()?)? {
            self.renamed += 1;
            let new = atom(format!("{name}.{}", self.renamed));
            variables.push(list(vec![new.clone(), atom(sort)]));
            renamed.insert(name, new);
        }
        let body = self.formula(&body.replace(&renamed))?;
        Ok(list(vec![head.clone(), list(variables), body]))
    }

    /// Expands a list of effects, some of which stand for several.
    pub(crate) fn effects(&mut self, effects: &[Expr]) -> Result<Vec<Expr>, String> {
        let mut all = Vec::new();
        for effect in effects {
            let (name, args) = effect.form()?;
            match self.definitions.get(name).cloned() {
                Some(Definition { params, body }) => {
                    let args = self.formulas(args)?;
                    let bindings = bind(&params, &args)?;
                    for part in self.formulas(&body)? {
                        all.push(part.replace(&bindings));
                    }
                }
                None => all.push(self.formula(effect)?),
            }
        }
        Ok(all)
    }

    fn has(&self, rule: &Expr) -> Result<bool, String> {
        Ok(self.without.as_ref() != Some(rule.atom()?))
    }
}

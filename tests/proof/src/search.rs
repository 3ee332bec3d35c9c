//! Searches for the shortest history that reaches a state, with a few clients and keys.

use std::{collections::BTreeMap, rc::Rc};

use crate::{
    bits::{Bits, STEP, and, choose, equal, not, or, value_name},
    expression::{Bindings, Expr, atom, call},
    history::{Snapshot, Taken},
    solver::{Solver, Verdict},
    system::{Clocks, EXACT, Function, Sentence, Step, System, Typed},
};

/// A history, and the sentence that is false after it.
pub(crate) type History<'a> = (&'a Sentence, Vec<Taken<'a>>);

pub(crate) struct Search<'a> {
    bits: Bits<'a>,
    /// The parameters of all steps. Those of one name are one.
    params: Vec<Typed>,
    /// The latest time of a clock, and the longest TTL.
    times: [u64; 2],
    clocks: Clocks,
    /// The number of steps so far.
    length: usize,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        system: &'a System,
        clocks: Clocks,
        mut solver: Solver,
    ) -> Result<Self, String> {
        solver.command(&call("set-logic", [atom("QF_FD")]))?;
        let times = if clocks == EXACT { [5, 3] } else { [12, 12] };
        let mut params: Vec<Typed> =
            system.steps.iter().flat_map(|step| step.params.clone()).collect();
        params.sort();
        params.dedup();
        if let Some(pair) = params.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("the parameter {} has two sorts", pair[0].0));
        }
        let mut search =
            Self { bits: Bits::new(system, solver, clocks), params, times, clocks, length: 0 };
        search.begin()?;
        Ok(search)
    }

    fn begin(&mut self) -> Result<(), String> {
        let system = self.bits.system;
        let bits = &mut self.bits;
        for constant in &system.constants {
            bits.declare_all(constant, "")?;
            if constant.domain.is_empty() {
                let (name, first) =
                    (value_name(&constant.name, "", &[]), bits.literal(&constant.range, 0));
                bits.solver.assert(&equal(&name, &first))?;
            }
            for point in bits.points(&constant.domain) {
                if &*constant.range == "Time" {
                    let longest = bits.literal("Time", self.times[1]);
                    let name = value_name(&constant.name, "", &point);
                    bits.solver.assert(&call("bvule", [name, longest]))?;
                }
            }
        }
        self.state()?;
        for formula in system.axioms.iter().chain(&system.initially) {
            let formula = self.bits.term(formula, 0, &Bindings::new())?;
            self.bits.solver.assert(&formula)?;
        }
        for sort in self.used_sorts() {
            for index in 0..self.bits.size(&sort).unwrap_or(0) {
                let name = used(&sort, 0, index);
                self.bits.declare(&name, "Bool")?;
                let known = if index == 0 && self.is_fixed(&sort) { "true" } else { "false" };
                self.bits.solver.assert(&equal(&name, &atom(known)))?;
            }
        }
        Ok(())
    }

    fn used_sorts(&self) -> Vec<Rc<str>> {
        let is_enum = |sort: &Rc<str>| self.bits.system.enums.contains_key(sort);
        self.bits.system.sorts.iter().filter(|sort| !is_enum(sort)).cloned().collect()
    }

    /// Returns `true` if a constant names the first element, which is therefore unlike the others.
    fn is_fixed(&self, sort: &Rc<str>) -> bool {
        let constants = &self.bits.system.constants;
        constants.iter().any(|constant| constant.domain.is_empty() && constant.range == *sort)
    }

    /// Declares the state after the steps so far.
    fn state(&mut self) -> Result<(), String> {
        let at = self.length.to_string();
        for variable in &self.bits.system.variables {
            self.bits.declare_all(variable, &at)?;
        }
        // Times are added and multiplied, so they must be small. Deadlines are sums.
        for name in
            ["now", "clock", "sent"].into_iter().chain((self.length == 0).then_some("expiry"))
        {
            let Some((function, _)) = self.bits.system.function(name) else { continue };
            for point in self.bits.points(&function.domain) {
                let latest = self.bits.literal("Time", self.times[0]);
                let value = value_name(name, &at, &point);
                self.bits.solver.assert(&call("bvule", [value, latest]))?;
            }
        }
        if self.length == 0 {
            for point in self.bits.points(&["Session".into()]) {
                let latest = self.bits.literal("Time", self.times[0]);
                let value = value_name("deadline", &at, &point);
                self.bits.solver.assert(&call("bvule", [value, latest]))?;
            }
        }
        Ok(())
    }

    /// Returns the shortest history to a state in which a sentence is false, or `None` if there is
    /// none with this number of steps.
    pub(crate) fn shortest(
        &mut self,
        sentences: &'a [Sentence],
        longest: usize,
    ) -> Result<Option<History<'a>>, String> {
        loop {
            let found = self.violation(sentences)?;
            if found.is_some() || self.length == longest {
                return Ok(found);
            }
            self.extend(None)?;
        }
    }

    /// Returns a history of these steps to a state in which a sentence is false.
    pub(crate) fn along(
        &mut self,
        steps: &[Rc<str>],
        sentences: &'a [Sentence],
    ) -> Result<Option<History<'a>>, String> {
        for name in steps {
            self.extend(Some(self.bits.system.step(name)?))?;
        }
        self.violation(sentences)
    }

    /// Returns a history of the current length to a state in which a sentence is false.
    fn violation(&mut self, sentences: &'a [Sentence]) -> Result<Option<History<'a>>, String> {
        let mut broken = Vec::new();
        for sentence in sentences {
            let formula = self.bits.term(&sentence.formula, self.length, &Bindings::new())?;
            let name = atom(format!("broken@{}.{}", self.length, sentence.name));
            self.bits.declare(&name, "Bool")?;
            self.bits.solver.assert(&equal(&name, &not(formula)))?;
            broken.push(name);
        }
        let any = atom(format!("broken@{}", self.length));
        self.bits.declare(&any, "Bool")?;
        self.bits.solver.assert(&equal(&any, &or(broken.clone())))?;
        match self.bits.solver.check_with(&any)? {
            Verdict::Impossible => Ok(None),
            Verdict::Unknown => Err(format!("z3 gave up after {} steps", self.length)),
            Verdict::Possible => {
                let mut which = None;
                for (sentence, name) in sentences.iter().zip(&broken) {
                    if self.number(name)? == 1 {
                        which = which.or(Some(sentence));
                    }
                }
                let which = which.ok_or("z3 names no broken sentence")?;
                Ok(Some((which, self.history()?)))
            }
        }
    }

    /// Adds one step: this one, or one of any kind.
    fn extend(&mut self, only: Option<&'a Step>) -> Result<(), String> {
        let (at, system) = (self.length, self.bits.system);
        self.length += 1;
        self.state()?;
        let kind = atom(format!("step@{at}"));
        self.bits.declare(&kind, STEP)?;
        let mut known = Bindings::new();
        for (name, sort) in self.params.clone() {
            let param = atom(format!("{name}@{at}"));
            self.bits.declare(&param, &sort)?;
            known.insert(name, param);
        }
        let (mut kinds, mut choices) = (Vec::new(), Vec::new());
        for (index, step) in (0..).zip(&system.steps) {
            if only.is_some_and(|only| only.name != step.name) {
                continue;
            }
            let this = equal(&kind, &self.bits.literal(STEP, index));
            kinds.push(this.clone());
            let this = if only.is_some() { atom("true") } else { this };
            for condition in &step.conditions {
                let condition = self.bits.term(condition, at, &known)?;
                self.bits.solver.assert(&call("=>", [this.clone(), condition]))?;
            }
            choices.push((this, step));
        }
        self.bits.solver.assert(&or(kinds))?;
        for function in &system.variables {
            for point in self.bits.points(&function.domain) {
                self.change(function, &point, &choices, &known)?;
            }
        }
        if self.clocks == EXACT {
            self.alike()?;
        }
        self.in_order(&choices)
    }

    /// Lets all clocks advance alike. The proof also allows clocks that run faster.
    fn alike(&mut self) -> Result<(), String> {
        let [before, after] = [self.length - 1, self.length].map(|at| at.to_string());
        for session in self.bits.points(&["Session".into()]) {
            let clock = |at| value_name("clock", at, &session);
            let now = |at| value_name("now", at, &[]);
            let left = call("bvadd", [clock(&before), now(&after)]);
            let right = call("bvadd", [clock(&after), now(&before)]);
            self.bits.solver.assert(&equal(&left, &right))?;
        }
        Ok(())
    }

    /// Determines the value of a function after a step.
    fn change(
        &mut self,
        function: &Function,
        point: &[Expr],
        choices: &[(Expr, &Step)],
        known: &Bindings,
    ) -> Result<(), String> {
        let at = self.length - 1;
        let after = value_name(&function.name, &self.length.to_string(), point);
        let mut value = value_name(&function.name, &at.to_string(), point);
        for (this, step) in choices {
            if step.chosen.contains(&function.name) {
                value = choose(this, &after, &value);
            }
            for update in step.updates.iter().filter(|update| update.target == function.name) {
                let mut known = known.clone();
                let each = update.each.iter().zip(point);
                known.extend(each.map(|((name, _), value)| (Rc::clone(name), value.clone())));
                let args = update.args.iter().map(|arg| self.bits.term(arg, at, &known));
                let args = args.collect::<Result<Vec<_>, _>>()?;
                let here = args.iter().zip(point).map(|(arg, value)| equal(arg, value));
                let here = and([this.clone()].into_iter().chain(here).collect());
                let new = self.bits.term(&update.value, at, &known)?;
                value = choose(&here, &new, &value);
            }
        }
        self.bits.solver.assert(&equal(&after, &value))
    }

    /// All elements of a sort are alike. The histories begin with the first ones.
    fn in_order(&mut self, choices: &[(Expr, &Step)]) -> Result<(), String> {
        let at = self.length - 1;
        for sort in self.used_sorts() {
            let values = self.bits.values(&sort);
            for (index, value) in values.iter().enumerate() {
                let mut uses = Vec::new();
                for (this, step) in choices {
                    for (name, _) in step.params.iter().filter(|(_, of)| *of == sort) {
                        let same = equal(&atom(format!("{name}@{at}")), value);
                        uses.push(and(vec![this.clone(), same]));
                    }
                }
                let (before, after) =
                    (used(&sort, at, index as u64), used(&sort, at + 1, index as u64));
                self.bits.declare(&after, "Bool")?;
                let uses = or([before].into_iter().chain(uses).collect());
                self.bits.solver.assert(&equal(&after, &uses))?;
                if index > 0 {
                    let earlier = used(&sort, at + 1, index as u64 - 1);
                    self.bits.solver.assert(&call("=>", [after, earlier]))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the history that the solver has found.
    fn history(&mut self) -> Result<Vec<Taken<'a>>, String> {
        let mut history = Vec::new();
        for at in 0..self.length {
            let index = self.number(&atom(format!("step@{at}")))?;
            let step = self.bits.system.steps.get(index as usize).ok_or("z3 names no step")?;
            let mut args = BTreeMap::new();
            for (name, _) in &step.params {
                args.insert(Rc::clone(name), self.number(&atom(format!("{name}@{at}")))?);
            }
            let after = Snapshot::read(self, self.bits.system, at + 1)?;
            history.push(Taken { step, args, after });
        }
        Ok(history)
    }

    pub(crate) fn points(&self, domain: &[Rc<str>]) -> Vec<Vec<Expr>> {
        self.bits.points(domain)
    }

    /// Returns a value in the history that the solver has found.
    pub(crate) fn number(&mut self, name: &Expr) -> Result<u64, String> {
        let value = self.bits.solver.value(name)?;
        let number = match &*value {
            "true" => Ok(1),
            "false" => Ok(0),
            _ => match (value.strip_prefix("#x"), value.strip_prefix("#b")) {
                (Some(digits), _) => u64::from_str_radix(digits, 16),
                (_, Some(digits)) => u64::from_str_radix(digits, 2),
                _ => value.parse(),
            },
        };
        number.map_err(|_| format!("z3: the value {value} is no number"))
    }
}

fn used(sort: &str, at: usize, index: u64) -> Expr {
    atom(format!("used@{at}.{sort}.{index}"))
}

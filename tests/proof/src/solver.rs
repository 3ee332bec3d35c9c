//! The program `z3`.

use std::io;

use easy_smt::{Context, ContextBuilder, Response, SExpr};

use crate::expression::{Expr, atom, call};

/// How much the solver may try to answer one question of the proof, in its own unit. Unlike a limit
/// of time, this gives the same verdict on a busy machine.
pub(crate) const LIMIT: u64 = 100_000_000;

const MISSING: &str = "the program z3 is missing; install it first (Debian and Ubuntu: \
                       apt-get install z3)";

/// The solver's answer about a set of formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is a state or history with all of them.
    Possible,
    Impossible,
    /// The solver does not know, or has reached its limit.
    Unknown,
}

pub(crate) struct Solver {
    context: Context,
}

impl Solver {
    /// Starts the program.
    pub(crate) fn new() -> Result<Self, String> {
        let context = ContextBuilder::new().solver("z3").solver_args(["-smt2", "-in"]).build();
        let context = context.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => MISSING.to_owned(),
            _ => failed(&error),
        })?;
        Ok(Self { context })
    }

    /// Limits how much the solver may try to answer each question.
    pub(crate) fn limit(&mut self, limit: u64) -> Result<(), String> {
        self.command(&call("set-option", [atom(":rlimit"), atom(limit.to_string())]))
    }

    fn term(&self, expr: &Expr) -> SExpr {
        match expr {
            Expr::Atom(name) | Expr::Text(name) => self.context.atom(&**name),
            Expr::List(items) => {
                self.context.list(items.iter().map(|item| self.term(item)).collect())
            }
        }
    }

    /// Sends a command that has no result.
    pub(crate) fn command(&mut self, command: &Expr) -> Result<(), String> {
        let reply = self.ask(command)?;
        if reply == "success" { Ok(()) } else { Err(format!("z3: {reply}, after {command}")) }
    }

    fn ask(&mut self, command: &Expr) -> Result<String, String> {
        let command = self.term(command);
        self.context.raw_send(command).map_err(|error| failed(&error))?;
        let reply = self.context.raw_recv().map_err(|error| failed(&error))?;
        Ok(self.context.display(reply).to_string())
    }

    pub(crate) fn assert(&mut self, formula: &Expr) -> Result<(), String> {
        self.command(&call("assert", [formula.clone()]))
    }

    /// Does something, and then removes all formulas and names that it has added.
    pub(crate) fn apart<T>(
        &mut self,
        what: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.context.push().map_err(|error| failed(&error))?;
        let result = what(self)?;
        self.context.pop().map_err(|error| failed(&error))?;
        Ok(result)
    }

    pub(crate) fn check(&mut self) -> Result<Verdict, String> {
        self.context.check().map(verdict).map_err(|error| failed(&error))
    }

    /// Returns the verdict about the asserted formulas and this name of a formula.
    pub(crate) fn check_with(&mut self, name: &Expr) -> Result<Verdict, String> {
        let name = self.term(name);
        self.context.check_assuming([name]).map(verdict).map_err(|error| failed(&error))
    }

    /// Returns the value of a term in the state or history that was found.
    pub(crate) fn value(&mut self, term: &Expr) -> Result<String, String> {
        let term = self.term(term);
        let values = self.context.get_value(vec![term]).map_err(|error| failed(&error))?;
        match &*values {
            [(_, value)] => Ok(self.context.display(*value).to_string()),
            _ => Err("z3: no value".into()),
        }
    }
}

fn verdict(response: Response) -> Verdict {
    match response {
        Response::Sat => Verdict::Possible,
        Response::Unsat => Verdict::Impossible,
        Response::Unknown => Verdict::Unknown,
    }
}

fn failed(error: &io::Error) -> String {
    format!("z3: {error}")
}
